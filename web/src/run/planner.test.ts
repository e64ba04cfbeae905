// Folds the events that a planner sends.
import { expect, test } from "vitest";
import type { Json } from "../api/json";
import { drawPlanner, foldPlanner } from "./planner";
import type { RunRecord } from "./record";

/** Progress events in order. */
function progress(...events: [string, Json][]): RunRecord[] {
  return events.map(([name, data], at) => ({
    run: "r",
    seq: at + 1,
    at,
    path: "/decompose",
    attempt: 0,
    event: "progress",
    data: { name, data },
  }));
}

const WANTED: [string, Json][] = [
  ["start", { intent: "count words" }],
  ["stage", { stage: "decompose", status: "running", message: "finding the required blocks" }],
  [
    "stage_result",
    {
      stage: "decompose",
      status: "done",
      required_blocks: [
        { suggested_id: "count", description: "Counts", depends_on: [] },
        { suggested_id: "tell", description: "Tells", depends_on: ["count"] },
      ],
    },
  ],
];

test("blocks are found, written and repaired", () => {
  const planner = foldPlanner(
    progress(
      ...WANTED,
      ["search_missing", { suggested_id: "count" }],
      ["search_found", { suggested_id: "tell", block_id: "notify_push", score: 0.9 }],
      ["creating_block", { suggested_id: "count" }],
      ["block_created", { block_id: "count", block: { source_code: "one" } }],
      ["block_test_failed", { block_id: "count", error: "wrong" }],
      ["block_created", { block_id: "count", block: { source_code: "two" } }],
      ["block_test_passed", { block_id: "count" }],
    ),
  );
  expect(planner.intent).toBe("count words");
  expect(planner.stages).toEqual([
    { name: "decompose", status: "done", message: "finding the required blocks" },
  ]);
  expect(planner.blocks.map(({ id, state }) => [id, state])).toEqual([
    ["count", "passed"],
    ["notify_push", "found"],
  ]);
  expect(planner.blocks[0]?.versions).toEqual([
    { source: "one", problem: "wrong" },
    { source: "two", problem: undefined },
  ]);
});

test("the graph shows wanted blocks first, and connected ones in the end", () => {
  const before = drawPlanner(foldPlanner(progress(...WANTED)));
  expect(before.graph.edges).toEqual([{ from: 0, to: 1, label: "" }]);
  const wired: [string, Json] = [
    "stage_result",
    {
      stage: "wire",
      status: "done",
      pipeline_json: {
        nodes: [
          { id: "n1", block_id: "count" },
          { id: "n2", block_id: "notify_push" },
        ],
        edges: [{ from: "n1", to: "n2" }],
      },
      tried: { nodes: [{ node_id: "n2", block_id: "notify_push", status: "completed", mocked: "example" }] },
    },
  ];
  const planner = foldPlanner(progress(...WANTED, wired));
  const after = drawPlanner(planner);
  expect(after.graph.nodes.map((node) => node.title)).toEqual(["count", "notify_push"]);
  expect(after.graph.edges).toEqual([{ from: 0, to: 1, label: "" }]);
  expect(planner.rehearsed).toEqual([
    { id: "n2", block: "notify_push", status: "completed", output: undefined, mocked: "example" },
  ]);
});

test("events of unknown shape change nothing", () => {
  const planner = foldPlanner(progress(["search_found", null], ["stage_result", [1]], ["complete", "x"]));
  expect([planner.blocks, planner.nodes, planner.pipeline]).toEqual([[], [], undefined]);
});
