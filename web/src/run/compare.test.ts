import { expect, test } from "vitest";
import { firstDivergence, pairSteps } from "./compare";
import { createState, type RunState, type StepState } from "./fold";

function runOf(outputs: Record<string, string>): RunState {
  const steps = Object.entries(outputs).map(
    ([path, output]): StepState => ({
      path,
      phase: "finished",
      output,
      attempts: 1,
      startedAt: 1,
      warnings: [],
      isFailureIgnored: false,
      firstSeq: 1,
      tries: [],
    }),
  );
  return { ...createState(), steps };
}

test("steps are paired by path, in the order in which they started", () => {
  const pairs = pairSteps(
    runOf({ "/a": "x", "/b": "y", "/c": "z" }),
    runOf({ "/a": "x", "/new": "1", "/b": "other", "/end": "2" }),
  );
  expect(pairs.map((pair) => `${pair.path} ${pair.difference}`)).toEqual([
    "/a same",
    "/new only-right",
    "/b differs",
    "/c only-left",
    "/end only-right",
  ]);
  expect(firstDivergence(pairs)?.path).toBe("/new");
});

test("equal runs do not diverge", () => {
  expect(firstDivergence(pairSteps(runOf({ "/a": "x" }), runOf({ "/a": "x" })))).toBeUndefined();
});
