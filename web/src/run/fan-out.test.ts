import { expect, test } from "vitest";
import { foldFanOuts } from "./fan-out";
import { createState, type StepState } from "./fold";
import { NodeFinder } from "./graph";

function graphOf(members: number) {
  const paths = ["/first", ...Array.from({ length: members }, (_, at) => `/fanout~1/m${at}`), "/last"];
  const nodes = paths.map((path) => ({ path, title: path, kind: "generate" }));
  const each = Array.from({ length: members }, (_, at) => at + 1);
  const edges = [
    ...each.map((to) => ({ from: 0, to, label: "" })),
    ...each.map((from) => ({ from, to: members + 1, label: "" })),
    { from: members + 1, to: null, label: "" },
  ];
  return { nodes, edges };
}

const fold = (members: number) => foldFanOuts(graphOf(members), (count) => `${count} steps`);

test("a large fan-out is one node between its neighbours", () => {
  const { nodes, edges } = fold(1000);
  expect(nodes.map(({ title }) => title)).toEqual(["/first", "1000 steps", "/last"]);
  expect(edges).toEqual([
    { from: 0, to: 1, label: "" },
    { from: 1, to: 2, label: "" },
    { from: 2, to: null, label: "" },
  ]);
});

test("a small one stays as it is", () => {
  expect(fold(3)).toEqual(graphOf(3));
});

test("the node has the state of its members", () => {
  const step = (path: string, phase: StepState["phase"]): StepState => {
    return {
      path,
      phase,
      attempts: 1,
      startedAt: 1,
      warnings: [],
      isFailureIgnored: false,
      firstSeq: 1,
      tries: [],
    };
  };
  const steps = [
    step("/first", "finished"),
    step("/fanout~1/m0", "finished"),
    step("/fanout~1/m1", "failed"),
  ];
  const done = [...steps, step("/fanout~1", "finished")];
  const finder = new NodeFinder(fold(30));
  for (const one of [steps, done]) {
    const state = finder.statesOf({ ...createState(), steps: one }).get(1);
    expect([state?.phase, state?.count]).toEqual(["failed", 2]);
  }
});
