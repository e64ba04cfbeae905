// Finds the parts of one inspection of a definition in another one, after the definition has changed.
import type { Part } from "./definition";

type Described = Pick<Part, "list" | "kind" | "title" | "value">;

/**
 * For each part of `before`, its position among the parts of `after`; undefined if it is not there. Parts with the same
 * content match first, then those with the same name, then the others in their order, if none was added or removed. Of
 * several equal ones, the part at the same position matches.
 */
export function matchParts(
  before: readonly Described[],
  after: readonly Described[],
): (number | undefined)[] {
  const found: (number | undefined)[] = before.map(() => undefined);
  const taken = new Set<number>();
  const take = (at: number, position: number) => {
    found[at] = position;
    taken.add(position);
  };
  const match = (describe: (part: Described) => string) => {
    const isOpen = (at: number) => found[at] === undefined;
    const keys = after.map(describe);
    before.forEach((part, at) => {
      if (isOpen(at) && !taken.has(at) && keys[at] === describe(part)) take(at, at);
    });
    const free = new Map<string, number[]>();
    // From the end, so that the first one is taken first.
    for (let at = keys.length - 1; at >= 0; at--) {
      const key = keys[at];
      if (key === undefined || taken.has(at)) continue;
      const positions = free.get(key);
      if (positions) positions.push(at);
      else free.set(key, [at]);
    }
    before.forEach((part, at) => {
      const position = isOpen(at) ? free.get(describe(part))?.pop() : undefined;
      if (position !== undefined) take(at, position);
    });
  };
  match(({ list, kind, title, value }) => JSON.stringify([list, kind, title, value]));
  match(({ list, kind, title }) => JSON.stringify([list, kind, title]));
  if (before.length === after.length) match(({ list }) => list);
  return found;
}
