// The parts of a definition that have problems.
import type { Schemas } from "../api/client";
import type { Inspection, Part } from "./definition";
import { keyOf, type Path } from "./path";

type Problem = Pick<Schemas["Diagnostic"], "start" | "severity">;
type Parts = Pick<Inspection, "parts">;

/** How serious the problems of a part are: the worst of them. */
export type Mark = "error" | "warning";

/** The smallest part around each problem, by its key. */
export function markParts(
  inspection: Parts | undefined,
  problems: readonly Problem[],
): ReadonlyMap<string, Mark> {
  const marks = new Map<string, Mark>();
  for (const { start, severity } of problems) {
    const part = start == null ? undefined : findAround(inspection?.parts ?? [], start);
    if (!part) continue;
    const key = keyOf(part.path as Path);
    if (severity !== "warning") marks.set(key, "error");
    else if (!marks.has(key)) marks.set(key, "warning");
  }
  return marks;
}

function findAround(parts: readonly Part[], byte: number): Part | undefined {
  const around = parts.filter((part) => part.start <= byte && byte < part.start + part.length);
  return around.sort((one, other) => one.length - other.length)[0];
}
