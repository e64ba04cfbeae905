// The parts of a definition that have problems.
import type { Schemas } from "../api/client";
import type { Mark } from "../ui/state";
import type { Inspection, Part } from "./definition";
import { keyOf, type Path } from "./path";

type Problem = Pick<Schemas["Diagnostic"], "start" | "severity" | "message">;

/** Problems by the key of the smallest part around them. */
export type ProblemGroups = {
  marks: ReadonlyMap<string, Mark>;
  /** The messages. Those of problems that are in no part have the key undefined. */
  messages: ReadonlyMap<string | undefined, string[]>;
};

export function groupProblems(
  inspection: Pick<Inspection, "parts"> | undefined,
  problems: readonly Problem[],
): ProblemGroups {
  const marks = new Map<string, Mark>();
  const messages = new Map<string | undefined, string[]>();
  for (const { start, severity, message } of problems) {
    const part = start == null ? undefined : findAround(inspection?.parts ?? [], start);
    const key = part && keyOf(part.path as Path);
    if (key !== undefined) addMark(marks, key, severity);
    messages.set(key, [...(messages.get(key) ?? []), message]);
  }
  return { marks, messages };
}

/** Counts a problem, and keeps the worst severity. */
export function addMark<Key>(marks: Map<Key, Mark>, key: Key, severity: Problem["severity"]): void {
  const before = marks.get(key);
  const isWarning = severity === "warning" && before?.severity !== "error";
  marks.set(key, { severity: isWarning ? "warning" : "error", count: (before?.count ?? 0) + 1 });
}

/** Whether a message names one of these fields. */
export function mentionsOneOf(message: string, names: readonly string[]): boolean {
  const words = new Set(message.match(/[\p{L}\p{N}_]+/gu));
  return names.some((name) => words.has(name));
}

function findAround(parts: readonly Part[], byte: number): Part | undefined {
  const around = parts.filter((part) => part.start <= byte && byte < part.start + part.length);
  return around.sort((one, other) => one.length - other.length)[0];
}
