// The changes that make one value of another: only what differs is written again, so that order and layout stay.
import { ExactNumber, type Json } from "../../api/json";
import type { Edit } from "../definition";
import type { Path } from "../path";

type Fields = { [key: string]: Json };

function isFields(value: Json | undefined): value is Fields {
  return (
    typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof ExactNumber)
  );
}

function isSame(one: Json | undefined, other: Json | undefined): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** The changes from one value to another at a path. */
export function listChanges(before: Json | undefined, after: Json | undefined, path: Path): Edit[] {
  if (isSame(before, after)) return [];
  if (after === undefined) return [{ do: "remove", path }];
  if (!isFields(before) || !isFields(after)) return [{ do: "set", path, value: after }];
  const removed = Object.keys(before).filter((key) => !(key in after));
  const added = Object.keys(after).filter((key) => !(key in before));
  const [from, to] = [removed[0], added[0]];
  if (removed.length === 1 && added.length === 1 && from !== undefined && to !== undefined) {
    const isRenamed = isSame(before[from], after[to]);
    if (isRenamed) {
      const others = listChanges(without(before, from), without(after, to), path);
      return [{ do: "rename_key", path: [...path, from], name: to }, ...others];
    }
  }
  return [
    ...removed.map((key): Edit => ({ do: "remove", path: [...path, key] })),
    ...Object.entries(after).flatMap(([key, value]) => listChanges(before[key], value, [...path, key])),
  ];
}

function without(fields: Fields, key: string): Fields {
  const { [key]: _, ...rest } = fields;
  return rest;
}
