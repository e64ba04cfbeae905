// The steps of a run as a tree of rows: a row for each step, and one for each loop, fan-out or part that holds several.
import { t } from "../strings";
import { type Phase, type RunState, type StepState, sumUsage } from "./fold";
import { isFinal, type Usage } from "./record";

export type Row = {
  path: string;
  label: string;
  /** Position of its own step in the state; undefined if it only holds others. */
  step: number | undefined;
  children: Row[];
  /** Positions of all steps in it, in order. */
  steps: number[];
};

const SEGMENT = /\/[^/[#]*|\[\d+\]|#\d+/g;

/** Removes iterations and visits: the path of the step in its definition. */
export function toStaticPath(path: string): string {
  return path.replace(/\[\d+\]|#\d+/g, "");
}

/** The rows of all steps. It depends only on their paths. */
export function buildRows(steps: readonly Pick<StepState, "path">[]): Row[] {
  const root: Row = { path: "/", label: "", step: undefined, children: [], steps: [] };
  const known = new Map<string, Row>([["", root]]);
  steps.forEach((step, at) => {
    // The end of the whole, after its parts: that is the run itself.
    if (step.path === "/" && at > 0) return;
    let parent = root;
    let path = "";
    for (const segment of step.path.match(SEGMENT) ?? []) {
      path += segment;
      let row = known.get(path);
      if (!row) {
        row = { path, label: toLabel(segment), step: undefined, children: [], steps: [] };
        known.set(path, row);
        parent.children.push(row);
      }
      row.steps.push(at);
      parent = row;
    }
    parent.step = at;
  });
  return root.children;
}

/** The names of steps, by their path in the definition. */
export type Names = ReadonlyMap<string, string>;

/** The name of a row: that of its step, if the definition gives it one. */
function labelOf({ path, label }: Row, names: Names): string {
  return isNumber(label) ? label : (names.get(toStaticPath(path)) ?? label);
}

/** The label of a row, and whether the row is one that no definition names. */
function partOf(row: Row, names: Names): { label: string; isUnnamed: boolean } {
  const isNamed = isNumber(row.label) || names.has(toStaticPath(row.path));
  return {
    label: labelOf(row, names),
    isUnnamed: !isNamed && isUnnamed(row.path.slice(row.path.lastIndexOf("/"))),
  };
}

/** The name that a definition gives a step, with its iteration or visit; undefined if its path contains it. */
export function nameOf(path: string, names: Names): string | undefined {
  const fixed = toStaticPath(path);
  const name = names.get(fixed);
  if (name === undefined || name === fixed.slice(fixed.lastIndexOf("/") + 1)) return undefined;
  return name + (/((\[\d+\])|(#\d+))+$/.exec(path)?.[0] ?? "");
}

/** What a step is called on its own: its name, or else the end of its path. */
export function titleOf(path: string, names: Names): string {
  const segments = path.slice(path.lastIndexOf("/")).match(SEGMENT) ?? [];
  return nameOf(path, names) ?? (segments.map(toLabel).join("") || path);
}

/** A part that no definition names, such as the members of a step that runs in parallel. */
const UNNAMED = /^\/?([a-z_]+)~(\d+)$/;

/** Whether a segment is a part of the engine's, which is not informative if it holds only one other. */
function isUnnamed(segment: string): boolean {
  return t.run.unnamed.has(UNNAMED.exec(segment)?.[1] ?? "");
}

/** A segment for people. The first of its kind among its siblings needs no number. */
function toLabel(segment: string): string {
  const [, kind = "", number] = UNNAMED.exec(segment) ?? [];
  const name = t.run.unnamed.get(kind);
  if (name !== undefined) return number === "1" ? name : `${name} ${number}`;
  return segment.replace(/^\//, "").replace(/~1$/, "") || "/";
}

/** Whether a label is the number of an iteration or of a visit. */
function isNumber(label: string): boolean {
  return /^[[#]/.test(label);
}

/** The labels of rows within each other as one. Unnamed parts around others are left out. */
function joinLabels(parts: readonly { label: string; isUnnamed: boolean }[]): string {
  const kept = parts.filter((part, at) => {
    const next = parts[at + 1];
    return !part.isUnnamed || !next || isNumber(next.label);
  });
  return kept.reduce((whole, { label }, at) => {
    // The number of a single visit is not informative.
    if (at > 0 && (label === "#1" || label === "[0]")) return whole;
    return at === 0 || isNumber(label) ? whole + label : `${whole} / ${label}`;
  }, "");
}

/** A row as it is shown. `children` counts those that exist so far. */
export type VisibleRow = {
  row: Row;
  label: string;
  children: number;
  depth: number;
  isOpen: boolean;
  /** The position of the attempt that the row shows, if it shows one. */
  attempt?: number;
};

/** A row with more children is folded until the viewer opens it. */
const MAX_OPEN_CHILDREN = 12;

/**
 * The rows that are shown when the first `count` steps exist: a row that only holds one other is joined with it. They do
 * not depend on later steps. `folds` holds the viewer's decisions by path.
 */
export function listRows(
  rows: readonly Row[],
  count: number,
  folds: ReadonlyMap<string, boolean>,
  names: Names = new Map(),
): VisibleRow[] {
  const shown: VisibleRow[] = [];
  const add = (whole: Row, depth: number) => {
    let row = whole;
    const parts = [partOf(row, names)];
    let children = countStarted(row, count);
    while (children === 1 && !(row.step !== undefined && row.step < count)) {
      const [only] = row.children;
      if (!only) break;
      parts.push(partOf(only, names));
      row = only;
      children = countStarted(row, count);
    }
    const isOpen = children > 0 && (folds.get(row.path) ?? children <= MAX_OPEN_CHILDREN);
    shown.push({ row, label: joinLabels(parts), children, depth, isOpen });
    if (!isOpen) return;
    for (const child of row.children.slice(0, children)) add(child, depth + 1);
  };
  for (const row of rows.slice(0, countStartedOf(rows, count))) add(row, 0);
  return shown;
}

/** The rows with one more for each attempt of steps that were tried again. `folds` holds decisions by path. */
export function withAttempts(
  shown: readonly VisibleRow[],
  steps: readonly StepState[],
  folds: ReadonlyMap<string, boolean>,
): VisibleRow[] {
  return shown.flatMap((line) => {
    const { row, depth } = line;
    const tries = row.step === undefined ? 0 : (steps[row.step]?.tries.length ?? 0);
    if (tries < 2 || line.children > 0) return [line];
    const isOpen = folds.get(row.path) ?? tries <= MAX_OPEN_CHILDREN;
    const own = { ...line, children: tries, isOpen };
    if (!isOpen) return [own];
    const attempts = Array.from({ length: tries }, (_, attempt) => {
      return { row, label: "", children: 0, depth: depth + 1, isOpen: false, attempt };
    });
    return [own, ...attempts];
  });
}

/** How many rows in a row have one of the first `count` steps. */
function countStarted(row: Row, count: number): number {
  return countStartedOf(row.children, count);
}

/** Rows are in the order of their first steps. */
function countStartedOf(rows: readonly Row[], count: number): number {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rows[middle]?.steps[0] ?? count) < count) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * A phase, or a fact about it beyond the events: it waits to try again, its outcome is that of another run, or it
 * failed and the run continued.
 */
export type ShownPhase = Phase | "retrying" | "reused" | "tolerated";

/** What several steps add up to. */
export type Summary = {
  phase: ShownPhase;
  count: number;
  startedAt: number;
  endedAt: number | undefined;
  /** The time of all visits of a node, without what happened elsewhere between them. */
  visitsMs?: number;
  warnings: number;
};

/** How long something took until `now`: from its start to its end, or in all of its visits. */
export function durationOf({ startedAt, endedAt, visitsMs }: Times, now: number): number {
  return visitsMs ?? (endedAt ?? Math.max(now, startedAt)) - startedAt;
}

type Times = Pick<Summary, "startedAt" | "endedAt" | "visitsMs">;

/** The phases, the one that needs most attention first. */
const ORDER: readonly ShownPhase[] = [
  "uncertain",
  "waiting",
  "failed",
  "retrying",
  "running",
  "aborted",
  "reset",
  "tolerated",
  "finished",
  "reused",
  "skipped",
];
const RANKS = new Map(ORDER.map((phase, rank) => [phase, rank]));

/** Sums up those of `steps` that exist in a state; undefined if none does. */
export function summarizeSteps(state: RunState, steps: readonly number[]): Summary | undefined {
  let summary: Summary | undefined;
  for (const at of steps) {
    const step = state.steps[at];
    if (!step) break;
    summary = addToSummary(summary, step, state.failed);
  }
  return summary;
}

/** Sums up the steps of a row that exist in a state; undefined if none does. */
export function summarizeRow(state: RunState, row: Row): Summary | undefined {
  const summary = summarizeSteps(state, row.steps);
  const hasOwn = row.step !== undefined && row.step < state.steps.length;
  const visits = row.children.filter(({ label }) => label.startsWith("#"));
  if (visits.length > 1 && summary?.endedAt !== undefined) {
    const times = visits.map((visit) => summarizeSteps(state, visit.steps));
    return { ...summary, visitsMs: sumDurations(times) };
  }
  return hasOwn || visits.length > 0 || row.children.length === 0
    ? summary
    : continueSummary(state, row.steps, summary);
}

/** The time of all that have ended. */
export function sumDurations(times: readonly (Times | undefined)[]): number {
  return times.reduce((sum, one) => sum + (one?.endedAt === undefined ? 0 : one.endedAt - one.startedAt), 0);
}

/**
 * The summary of what holds steps and has no event of its own yet, such as a loop between two rounds: it continues
 * until another step starts or the run ends.
 */
export function continueSummary(
  state: RunState,
  steps: readonly number[],
  summary: Summary | undefined,
): Summary | undefined {
  if (summary?.endedAt === undefined || isFinal(state.status)) return summary;
  const at = state.steps.length - 1;
  const newest = state.steps[at];
  if (newest && newest.startedAt >= summary.endedAt && !steps.includes(at)) return summary;
  const isWorse = (RANKS.get(summary.phase) ?? 0) < (RANKS.get("running") ?? 0);
  return { ...summary, phase: isWorse ? summary.phase : "running", endedAt: undefined };
}

function addToSummary(summary: Summary | undefined, step: StepState, failed: string | undefined): Summary {
  const endedAt = isOver(step) ? (step.finishedAt ?? step.startedAt) : undefined;
  const phase = shownPhase(step, failed);
  const warnings = step.warnings.length;
  if (!summary) return { phase, count: 1, startedAt: step.startedAt, endedAt, warnings };
  const isWorse = (RANKS.get(phase) ?? 0) < (RANKS.get(summary.phase) ?? 0);
  if (isWorse) summary.phase = phase;
  summary.count++;
  summary.warnings += warnings;
  summary.startedAt = Math.min(summary.startedAt, step.startedAt);
  summary.endedAt =
    endedAt === undefined || summary.endedAt === undefined ? undefined : Math.max(summary.endedAt, endedAt);
  return summary;
}

/** The phase of a step as people see it. `failed` is where the run failed, if it did. */
export function shownPhase(step: StepState, failed?: string): ShownPhase {
  // A pipeline continues after a failed node, and then fails because of it.
  if (step.phase === "failed" && step.isFailureIgnored && !isWithin(step.path, failed)) return "tolerated";
  const last = step.tries.at(-1);
  if (step.phase === "running" && last?.error && last.endedAt !== undefined) return "retrying";
  if (step.phase === "finished" && step.isReused) return "reused";
  return step.phase;
}

/** The row with a path. */
export function findRow(rows: readonly Row[], path: string): Row | undefined {
  for (const row of rows) {
    if (row.path === path) return row;
    if (isWithin(path, row.path)) return findRow(row.children, path);
  }
  return undefined;
}

/** Those of a row's parts that exist in a state. */
export function listParts(state: RunState, row: Row): Row[] {
  return row.children.slice(0, countStarted(row, state.steps.length));
}

/** What the model calls in a row have used; undefined if there were none. */
export function sumRowUsage(state: RunState, row: Row): Usage | undefined {
  return row.steps.reduce<Usage | undefined>((sum, at) => sumUsage(sum, state.steps[at]?.usage), undefined);
}

/** The position of the innermost shown row that contains a path; -1 if none does. */
export function findShown(shown: readonly VisibleRow[], path: string): number {
  return shown.findLastIndex(({ row, attempt }) => attempt === undefined && isWithin(path, row.path));
}

/** The steps because of which a run failed: the one where it failed, or those that failed within it. */
export function findFailedSteps({ steps, failed }: Pick<RunState, "steps" | "failed">): StepState[] {
  const causes = steps.filter((step) => step.phase === "failed" && isWithin(step.path, failed));
  const own = causes.find((step) => step.path === failed);
  return own ? [own] : causes;
}

/** Whether a path is another one, or a part of it. */
function isWithin(path: string, outer: string | undefined): boolean {
  if (outer === undefined) return false;
  return (
    path === outer || outer === "/" || (path.startsWith(outer) && /[/[#]/.test(path[outer.length] ?? ""))
  );
}

/** Whether nothing more happens to a step by itself. */
export function isOver(step: StepState): boolean {
  return step.phase !== "running" && step.phase !== "waiting" && step.phase !== "uncertain";
}
