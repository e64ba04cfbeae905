// Two runs side by side: their steps by path, and the first step whose result differs.
import type { Json } from "../api/json";
import type { RunState, StepState } from "./fold";

export type Difference = "same" | "differs" | "only-left" | "only-right";

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
  return isSame ? "same" : "differs";
}

/** A value as text that can be compared by line. */
export function textOf(value: Json | undefined): string {
  if (value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/** The first step whose result differs. */
export function firstDivergence(pairs: readonly StepPair[]): StepPair | undefined {
  return pairs.find((pair) => pair.difference !== "same");
}
