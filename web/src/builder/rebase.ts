// Changes that wait while an earlier one adds, moves or removes parts: their paths and positions are those of before.
import type { Edit, Part } from "./definition";
import { matchParts } from "./match-parts";
import { keyOf, type Path } from "./path";
import { END, listOf } from "./siblings";

/** Whether an edit can add, move or remove parts. The paths of others stay what they are. */
export function changesParts(edit: Edit): boolean {
  return edit.do !== "set" && edit.do !== "rename" && edit.do !== "rename_key";
}

/** The edits that mean in `after` what they meant in `before`; undefined if a part that they name is gone. */
export function rebaseEdits(
  edits: readonly Edit[],
  before: readonly Part[],
  after: readonly Part[],
): Edit[] | undefined {
  const places = new Map<string, Path | undefined>();
  matchParts(before, after).forEach((at, position) => {
    const path = at === undefined ? undefined : (after[at]?.path as Path | undefined);
    places.set(keyOf((before[position]?.path ?? []) as Path), path);
  });
  const rebased = edits.map((edit) => rebaseEdit(edit, { places, before, after }));
  return rebased.includes(undefined) ? undefined : (rebased as Edit[]);
}

type Change = { places: Map<string, Path | undefined>; before: readonly Part[]; after: readonly Part[] };

function rebaseEdit(edit: Edit, change: Change): Edit | undefined {
  if (edit.do === "add" || edit.do === "paste") {
    const list = rebasePath(edit.list, change);
    return list && { ...edit, list, at: rebaseEnd(edit.list, list, edit.at, change) };
  }
  const path = rebasePath(edit.path, change);
  if (!path) return undefined;
  if (edit.do === "move") return { ...edit, path, at: rebaseMove(edit, path, change) };
  if (edit.do !== "connect" || edit.target === null) return { ...edit, path };
  const target = rebasePath(edit.target, change);
  return target && { ...edit, path, target };
}

/** The path in which the innermost part has its new place; undefined if that part is gone. */
function rebasePath(path: Path, { places }: Change): Path | undefined {
  for (let length = path.length; length > 0; length--) {
    const key = keyOf(path.slice(0, length));
    if (!places.has(key)) continue;
    const place = places.get(key);
    return place && [...place, ...path.slice(length)];
  }
  return path;
}

function siblingsIn(parts: readonly Part[], list: Path): string[] {
  const siblings = parts.filter((part) => keyOf(listOf(part, part.list)) === keyOf(list));
  return siblings.map((part) => keyOf(part.path as Path));
}

/** The position behind the part that was in front of `at`. */
function rebaseEnd(list: Path, newList: Path, at: number, change: Change): number {
  const front = siblingsIn(change.before, list)[at - 1];
  if (at === END || front === undefined) return at;
  const place = change.places.get(front);
  const position = place ? siblingsIn(change.after, newList).indexOf(keyOf(place)) : -1;
  return position === -1 ? at : position + 1;
}

/** The position of the part that was at the target of a move. */
function rebaseMove(edit: { path: Path; at: number }, path: Path, change: Change): number {
  const listAround = (parts: readonly Part[], key: string) => {
    const part = parts.find((one) => keyOf(one.path as Path) === key);
    return part ? siblingsIn(parts, listOf(part, part.list)) : [];
  };
  const target = listAround(change.before, keyOf(edit.path))[edit.at];
  const place = target === undefined ? undefined : change.places.get(target);
  const position = place ? listAround(change.after, keyOf(path)).indexOf(keyOf(place)) : -1;
  return position === -1 ? edit.at : position;
}
