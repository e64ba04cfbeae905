import { expect, test } from "vitest";
import { createState, type StepState } from "./fold";
import { lineOf, NodeFinder, nameGraph } from "./graph";

function stepAt(path: string, phase: StepState["phase"] = "finished"): StepState {
  const times = { startedAt: 1, finishedAt: 2 };
  return {
    path,
    phase,
    attempts: 1,
    warnings: [],
    isFailureIgnored: false,
    firstSeq: 1,
    tries: [],
    ...times,
  };
}

test("a node has the state of its iterations, of itself, or of what it started", () => {
  const nodes = ["/loop", "/agent", "/plain", "/idle"].map((path) => ({
    path,
    title: path,
    kind: "generate",
  }));
  const finder = new NodeFinder({ nodes, edges: [] });
  const steps = [
    stepAt("/loop[0]"),
    stepAt("/loop[1]"),
    stepAt("/loop"),
    stepAt("/agent/turn~1[0]/tool~1[0]", "waiting"),
    stepAt("/plain", "failed"),
    stepAt("/plain/page~1"),
  ];
  const states = finder.statesOf({ ...createState(), steps });
  const drawn = [...states].map(([node, state]) => [node, state.count, state.phase]);
  expect(drawn).toEqual([
    [0, 2, "finished"],
    [1, 1, "waiting"],
    [2, 1, "failed"],
  ]);
  expect(finder.nodeOf("/loop[7]/inner")).toBe(0);
});

test("nodes have the words of the builder: blocks of flows their type and their variable", () => {
  const titles = ["start", "llmInstruction → answer", "apiCall", "webScraping → the page", "startle → x"];
  const own = titles.map((title, at) => ({ path: `/${at}`, title, kind: "generate" }));
  const pipeline = { path: "/nodes~1/n1", title: "filter", kind: "block" };
  const named = nameGraph({ nodes: [...own, pipeline], edges: [] }).nodes;
  expect(named.map(({ title, detail }) => [title, detail])).toEqual([
    ["Start", undefined],
    ["LLM instruction", "answer"],
    ["API call", undefined],
    ["Web scraping", "the page"],
    ["startle → x", undefined],
    ["filter", "n1"],
  ]);
  expect(named.map(lineOf)).toEqual([
    "Start",
    "answer · LLM instruction",
    "API call",
    "the page · Web scraping",
    "startle → x",
    "n1 · filter",
  ]);
});
