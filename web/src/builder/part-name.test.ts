import { expect, test } from "vitest";
import { kindIcon } from "../ui/icon";
import type { Part } from "./definition";
import { iconOf, kindOf, subtitleOf, titleOf } from "./part-name";

function name(part: object): [string, string] {
  const whole = part as Part;
  return [titleOf(whole), subtitleOf(whole)];
}

test("a block of a flow has its type first, and second what tells it from others", () => {
  const flow = { list: "steps", kind: "llmInstruction", title: "llmInstruction" };
  const instruction = "Say hello.";
  expect(name({ ...flow, value: { config: { instruction } } })).toEqual(["LLM instruction", instruction]);
  const named = name({ ...flow, value: { config: { instruction, resultVariable: "answer" } } });
  expect(named).toEqual(["LLM instruction", "answer"]);
  const start = { list: "steps", kind: "start", title: "start" };
  const variables = [{ name: "city" }, { name: "days" }, { value: "x" }];
  expect(name({ ...start, value: { config: { variables } } })).toEqual(["Start", "city, days"]);
  expect(name({ ...start, value: { config: {} } })).toEqual(["Start", "Variables"]);
});

test("a part has its name first, and its id or kind second", () => {
  const node = { list: "nodes", kind: "notify_push", title: "n4", value: { block_id: "notify_push" } };
  expect(name(node)).toEqual(["notify_push", "n4"]);
  expect(kindOf(node as unknown as Part)).toBe("block");
  const ask = {
    list: "steps",
    kind: "sequential",
    title: "approve",
    value: { functionId: "human::ask", mode: "sequential" },
  };
  expect(name(ask)).toEqual(["approve", "Person"]);
  expect(iconOf(ask as unknown as Part)).toBe("person");
  const fanout = {
    list: "steps",
    kind: "fanout",
    title: "mood",
    value: { functionId: "agent::chat", mode: "fanout" },
  };
  expect(name(fanout)).toEqual(["mood", "Model · in parallel"]);
});

test("a part has the icon that graphs show for what it does", () => {
  const kinds = [
    { list: "elements", kind: "Loop", title: "Loop" },
    { list: "steps", kind: "sequential", title: "recall", value: { functionId: "memory::get" } },
    { list: "elements", kind: "GenText", title: "GenText" },
  ];
  const parts = kinds as unknown as Part[];
  expect(parts.map(iconOf)).toEqual(["undo", "memory", "model"]);
  expect(parts.map((part) => kindIcon(kindOf(part)))).toEqual(parts.map(iconOf));
});
