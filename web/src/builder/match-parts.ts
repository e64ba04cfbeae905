// Finds the parts of one inspection of a definition in another one, after the definition has changed.
import type { Part } from "./definition";

type Described = Pick<Part, "list" | "kind" | "title" | "value">;

/**
 * For each part of `before`, its position among the parts of `after`; undefined if it is not there. Parts with the same
 * content match first, then those with the same name, then the others in their order, if none was added or removed.
 */
export function matchParts(
  before: readonly Described[],
  after: readonly Described[],
): (number | undefined)[] {
  const found: (number | undefined)[] = before.map(() => undefined);
  const taken = new Set<number>();
  const match = (describe: (part: Described) => string) => {
    const free = new Map<string, number[]>();
    after.forEach((part, at) => {
      if (taken.has(at)) return;
      const key = describe(part);
      free.set(key, [...(free.get(key) ?? []), at]);
    });
    // Taken from the end, which is cheap.
    for (const positions of free.values()) positions.reverse();
    before.forEach((part, at) => {
      if (found[at] !== undefined) return;
      const position = free.get(describe(part))?.pop();
      if (position === undefined) return;
      found[at] = position;
      taken.add(position);
    });
  };
  match(({ list, kind, title, value }) => JSON.stringify([list, kind, title, value]));
  match(({ list, kind, title }) => JSON.stringify([list, kind, title]));
  if (before.length === after.length) match(({ list }) => list);
  return found;
}
