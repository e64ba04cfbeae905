// Two runs side by side: their steps by path, and the first step whose result or request differs.
import type { Json } from "../api/json";
import type { RunState, StepState } from "./fold";
import { buildRows, listRows, type Names, type Row, type Summary, summarizeRow } from "./rows";

/** `request`: the result is the same, and what was sent last is not. */
export type Difference = "same" | "differs" | "request" | "only-left" | "only-right";

/** A step of two runs. */
export type StepPair = {
  path: string;
  left: StepState | undefined;
  right: StepState | undefined;
  difference: Difference;
};

/** The steps of two runs in the order in which they started: those of the left run, and others where they belong. */
export function pairSteps(left: RunState, right: RunState): StepPair[] {
  const leftPaths = new Map(left.steps.map((step) => [step.path, step]));
  const rightPaths = new Map(right.steps.map((step) => [step.path, step]));
  const pairs: StepPair[] = [];
  const seen = new Set<string>();
  const add = (path: string) => {
    if (seen.has(path)) return;
    seen.add(path);
    const pair = { path, left: leftPaths.get(path), right: rightPaths.get(path) };
    pairs.push({ ...pair, difference: differenceOf(pair.left, pair.right) });
  };
  let next = 0;
  for (const step of left.steps) {
    // What only the right run did comes before the next step that both did.
    if (rightPaths.has(step.path)) {
      for (; next < right.steps.length; next++) {
        const other = right.steps[next];
        if (!other || leftPaths.has(other.path)) break;
        add(other.path);
      }
      next++;
    }
    add(step.path);
  }
  for (const step of right.steps) add(step.path);
  return pairs;
}

function differenceOf(left: StepState | undefined, right: StepState | undefined): Difference {
  if (!left) return "only-right";
  if (!right) return "only-left";
  const isSame = left.phase === right.phase && textOf(left.output) === textOf(right.output);
  if (!isSame) return "differs";
  const [one, other] = [left.tries.at(-1)?.hash, right.tries.at(-1)?.hash];
  return one === other ? "same" : "request";
}

/** A row of the comparison: a step, or what holds several, with what each run did there. */
export type ComparedRow = {
  path: string;
  label: string;
  depth: number;
  left: Summary | undefined;
  right: Summary | undefined;
  difference: Difference;
  /** The step of this row; undefined for what only holds others. */
  pair: StepPair | undefined;
};

/** The steps of two runs as a tree, in which loops and fan-outs are above their parts. Parts without a difference are left out. */
export function listComparedRows(
  pairs: readonly StepPair[],
  left: RunState,
  right: RunState,
  names: Names,
): ComparedRow[] {
  const rows = buildRows(pairs);
  const byPath = new Map(pairs.map((pair) => [pair.path, pair]));
  const sides = [left, right].map((state) => ({ state, rows: indexRows(buildRows(state.steps)) }));
  const isOpen = (row: Row) => row.steps.some((at) => pairs[at]?.difference !== "same");
  const folds = new Map([...indexRows(rows)].map(([path, row]) => [path, isOpen(row)]));
  return listRows(rows, pairs.length, folds, names).map(({ row, label, depth }) => {
    const [one, other] = sides.map(({ state, rows }) => {
      const own = rows.get(row.path);
      return own && summarizeRow(state, own);
    });
    const differences = new Set(row.steps.map((at) => pairs[at]?.difference ?? "same"));
    const [only = "same"] = differences;
    const difference = differences.size === 1 ? only : "differs";
    const pair = byPath.get(row.path);
    return { path: row.path, label, depth, left: one, right: other, difference, pair };
  });
}

function indexRows(rows: readonly Row[], found = new Map<string, Row>()): Map<string, Row> {
  for (const row of rows) {
    found.set(row.path, row);
    indexRows(row.children, found);
  }
  return found;
}

/** A value as text that can be compared by line. */
export function textOf(value: Json | undefined): string {
  if (value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/** The first step whose result or request differs. */
export function firstDivergence(pairs: readonly StepPair[]): StepPair | undefined {
  return pairs.find((pair) => pair.difference !== "same");
}
