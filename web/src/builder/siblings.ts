// The positions of parts in their lists.
import type { Inspection, Part } from "./definition";
import { keyOf, type Path } from "./path";

/** The position after the last part of a list. */
export const END = 1_000_000;

/** The list to which a part is added: next to the selected one. */
export function listOf(part: Part | undefined, list: string): Path {
  if (part?.list !== list || part.parent == null) return [list];
  return list === "elements" ? ["elements", part.parent] : (part.path.slice(0, -1) as Path);
}

/** The position of a part among those around which there is the same part. */
export function positionOf(inspection: Inspection | undefined, part: Part): number {
  const siblings =
    inspection?.parts.filter((one) => one.list === part.list && one.parent === part.parent) ?? [];
  return siblings.findIndex((one) => keyOf(one.path as Path) === keyOf(part.path as Path));
}
