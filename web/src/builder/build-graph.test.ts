import { expect, test } from "vitest";
import { addUnreached, listUnreached, mapSteps } from "./build-graph";
import type { Part } from "./definition";

function partOf(title: string, step: string | null): Part {
  return { list: "elements", path: [title], kind: "", title, start: 0, length: 1, value: {}, form: "", step };
}

test("the part of a step is the innermost one: a container has the path of its first step", () => {
  const parts = [partOf("rounds", "/line"), partOf("line", "/line"), partOf("answer", null)];
  expect([...mapSteps(parts)].map(([step, { title }]) => [step, title])).toEqual([["/line", "line"]]);
});

test("a step behind the end of a flow is in its graph, and nothing leads to it", () => {
  const stepOf = (title: string, step: string | null) => ({ ...partOf(title, step), list: "steps" });
  const parts = [stepOf("first", "/first"), stepOf("second", null)];
  const graph = { nodes: [{ path: "/first", title: "first", kind: "generate" }], edges: [] };
  const { nodes, edges } = addUnreached(graph, listUnreached(parts));
  expect(nodes.map(({ about }) => about)).toEqual([undefined, "Never runs"]);
  expect(edges).toEqual([]);
  // While the definition has errors, no step is known.
  expect(listUnreached(parts.slice(1))).toEqual([]);
});
