// Runs whose events are in the record of another run.
import { expect, test } from "vitest";
import type { RunState, StepState } from "./fold";
import { createState } from "./fold";
import type { RunRecord } from "./record";
import { findDryRunEvents, toKnownRun } from "./recorded";

const events: RunRecord[] = [
  { run: "d", seq: 1, at: 5, path: "/", attempt: 0, event: "run_started", data: { epoch: 1 } },
  {
    run: "d",
    seq: 2,
    at: 6,
    path: "/nodes~1/n1",
    attempt: 1,
    event: "step_started",
    data: { kind: "block", target: "b", hash: "h", class: "pure" },
  },
];

const step = (more: Partial<StepState>): StepState => ({
  path: "/wire",
  phase: "finished",
  target: "author::rehearse",
  attempts: 1,
  startedAt: 0,
  warnings: [],
  isFailureIgnored: false,
  firstSeq: 1,
  tries: [],
  ...more,
});

function stateWith(...steps: StepState[]): RunState {
  return { ...createState(), steps };
}

test("the last dry run that ended is found", () => {
  const first = step({ output: { events: [] } });
  const last = step({ output: { events } as never });
  expect(findDryRunEvents(stateWith(first, last, step({ phase: "running" })))).toBe(events);
});

test("a record without events has none", () => {
  expect(
    findDryRunEvents(stateWith(step({ output: { nodes: [] } }), step({ target: "other" }))),
  ).toBeUndefined();
  expect(findDryRunEvents(stateWith(step({ output: null })))).toBeUndefined();
});

test("its state at each position is that of a run", () => {
  const run = toKnownRun(events);
  expect([run.run, run.connection, run.history.length]).toEqual(["d", "ended", 2]);
  expect(run.history.shownAt(1).steps).toEqual([]);
  expect(run.history.shownAt(2).steps.map(({ path }) => path)).toEqual(["/nodes~1/n1"]);
});
