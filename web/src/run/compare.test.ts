import { expect, test } from "vitest";
import { firstDivergence, listComparedRows, pairSteps } from "./compare";
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

test("loops and fan-outs stand above their parts, with the time of all of them", () => {
  const rounds = (output: string): RunState => {
    const run = runOf({ "/loop[0]": "x", "/loop[1]": output, "/loop": output, "/end": "y" });
    const times = [0, 10, 20, 20];
    const steps = run.steps.map((step, at) => {
      const isRound = step.path !== "/loop";
      const startedAt = times[at] ?? 0;
      return { ...step, startedAt, finishedAt: startedAt + (isRound ? 10 : 0) };
    });
    return { ...run, steps };
  };
  const [left, right] = [rounds("a"), rounds("b")];
  const rows = listComparedRows(pairSteps(left, right), left, right, new Map());
  const time = (row: (typeof rows)[number]) => (row.left?.endedAt ?? 0) - (row.left?.startedAt ?? 0);
  expect(rows.map((row) => `${row.depth} ${row.label} ${time(row)} ${row.difference}`)).toEqual([
    "0 loop 20 differs",
    "1 [0] 10 same",
    "1 [1] 10 differs",
    "0 end 10 same",
  ]);
});

test("an equal answer to another request is a difference", () => {
  const sending = (hash: string): RunState => {
    const run = runOf({ "/a": "x", "/loop[0]": "y", "/loop[1]": "z", "/loop": "z" });
    const steps = run.steps.map((step): StepState => {
      return step.path === "/a" ? step : { ...step, tries: [{ number: 1, hash, startedAt: 1 }] };
    });
    return { ...run, steps };
  };
  const [left, right] = [sending("1"), sending("2")];
  const pairs = pairSteps(left, right);
  expect(firstDivergence(pairs)).toMatchObject({ path: "/loop[0]", difference: "request" });
  const rows = (one: RunState, other: RunState) =>
    listComparedRows(pairSteps(one, other), one, other, new Map()).map((row) => row.label);
  expect(rows(left, right)).toEqual(["a", "loop", "[0]", "[1]"]);
  expect(rows(left, left)).toEqual(["a", "loop"]);
});

test("equal runs do not diverge", () => {
  expect(firstDivergence(pairSteps(runOf({ "/a": "x" }), runOf({ "/a": "x" })))).toBeUndefined();
});
