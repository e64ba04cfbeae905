import { expect, test } from "vitest";
import { applyRecord, createState } from "./fold";
import { findFollowed, inferFollowed } from "./followed";
import type { Graph, NodeState } from "./graph";
import type { RunRecord } from "./record";

function graphOf(names: string[], edges: [number, number | null, string?][]): Graph {
  return {
    nodes: names.map((name) => ({ path: `/${name}`, title: name, kind: "generate" })),
    edges: edges.map(([from, to, label = ""]) => ({ from, to, label })),
  };
}

function stateOf(phase: NodeState["phase"], count = 1): NodeState {
  return { phase, count, startedAt: 1, warnings: 0, endedAt: phase === "running" ? undefined : 2 };
}

test("a graph follows the arrows that were recorded", () => {
  const graph = graphOf(
    ["desk", "tools", "person"],
    [
      [0, 1],
      [1, 0],
      [0, 2],
      [0, null],
    ],
  );
  const state = createState();
  const take = (seq: number, path: string, to: string | null) => {
    const record = { run: "r", seq, at: seq, path, attempt: 0, event: "edge_taken", data: { to } };
    applyRecord(state, new Map(), record as RunRecord);
  };
  state.created = { format: "graph", name: "", inputs: null, user: "", limits: {} };
  // All of them ran: the person was reached from elsewhere.
  const states = new Map([0, 1, 2].map((node) => [node, stateOf("finished")]));
  take(1, "/desk#1", "tools");
  take(2, "/tools#1", "desk");
  expect([...findFollowed(graph, state, states)]).toEqual([0, 1]);
  take(3, "/desk#2", null);
  expect([...findFollowed(graph, state, states)]).toEqual([0, 1, 3]);
});

test("an arrow was followed if its source has ended and its target has begun", () => {
  const graph = graphOf(
    ["a", "b", "c"],
    [
      [0, 1],
      [1, 2],
      [2, null],
    ],
  );
  const followed = (...states: (NodeState | undefined)[]) => {
    const known = states.flatMap((state, at): [number, NodeState][] => (state ? [[at, state]] : []));
    return [...inferFollowed(graph, new Map(known), false)];
  };
  expect(followed(stateOf("running"), stateOf("finished"))).toEqual([]);
  expect(followed(stateOf("finished"), stateOf("running"))).toEqual([0]);
  expect(followed(stateOf("finished"), stateOf("failed"), stateOf("aborted"))).toEqual([0]);
  expect(inferFollowed(graph, new Map([[2, stateOf("finished")]]), true)).toEqual(new Set([2]));
});

test("a way back was followed if there was another iteration, a way around if its step did not run", () => {
  const graph = graphOf(
    ["loop", "maybe", "last"],
    [
      [0, 0, "at most 3 times"],
      [0, 1, "if needed"],
      [0, 2, "else"],
      [1, 2],
    ],
  );
  const followed = (count: number, maybe: NodeState["phase"]) => [
    ...inferFollowed(
      graph,
      new Map([stateOf("finished", count), stateOf(maybe), stateOf("finished")].entries()),
      true,
    ),
  ];
  expect(followed(1, "finished")).toEqual([1, 3]);
  expect(followed(2, "skipped")).toEqual([0, 2]);
});
