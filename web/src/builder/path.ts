// Where a value is in a definition.
export type Path = (string | number)[];

/** The key by which a part is known on the page. */
export function keyOf(path: Path): string {
  return path.join(".");
}
