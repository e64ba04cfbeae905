import { expect, test } from "vitest";
import { mapSteps } from "./build-graph";
import type { Part } from "./definition";

function partOf(title: string, step: string | null): Part {
  return { list: "elements", path: [title], kind: "", title, start: 0, length: 1, value: {}, form: "", step };
}

test("the part of a step is the innermost one: a container has the path of its first step", () => {
  const parts = [partOf("rounds", "/line"), partOf("line", "/line"), partOf("answer", null)];
  expect([...mapSteps(parts)].map(([step, { title }]) => [step, title])).toEqual([["/line", "line"]]);
});
