import { expect, test } from "vitest";
import { RunHistory } from "./history";
import type { RunRecord } from "./record";

type Item = [event: string, path: string, data?: unknown];

function stateOf(items: Item[]) {
  const history = new RunHistory();
  items.forEach(([event, path, data], at) => {
    history.add({
      run: "r",
      seq: at + 1,
      at: at * 10,
      path,
      attempt: 1,
      event,
      data,
    } as unknown as RunRecord);
  });
  return history.shownAt(items.length);
}

const STARTED: Item[] = [
  ["run_created", "/", { format: "steps", name: "n", inputs: null, user: "u", limits: {} }],
  ["run_started", "/", { epoch: 1 }],
  ["step_started", "/a", { kind: "generate", target: "m", hash: "h", class: "read" }],
  ["step_started", "/b", { kind: "ask", target: "", hash: "h", class: "read" }],
  ["asked", "/b", { question: "Why?" }],
  ["step_started", "/c", { kind: "http", target: "", hash: "h", class: "at_most_once" }],
  ["step_uncertain", "/c"],
];

test("the end of a run closes its steps, except those whose effect is uncertain", () => {
  const state = stateOf([...STARTED, ["run_finished", "/", { status: "budget_exceeded" }]]);
  expect(state.steps.map((step) => step.phase)).toEqual(["aborted", "aborted", "uncertain"]);
  expect(state.steps.map((step) => step.question)).toEqual([undefined, undefined, undefined]);
  expect(state.steps[0]?.tries[0]?.endedAt).toBe(70);
});

test("a run that continues keeps them open", () => {
  expect(stateOf(STARTED).steps.map((step) => step.phase)).toEqual(["running", "waiting", "uncertain"]);
});
