import { expect, test } from "vitest";
import { shapeOf, unwrapText, wrapText } from "./files";

test("prompts are texts, blocks and agents are parts", () => {
  expect(shapeOf("agents/orders/systemPrompt.md", "graph")).toEqual({ kind: "text" });
  expect(shapeOf("blocks/topic.json", "pipeline")?.kind).toBe("part");
  expect(shapeOf("agents/orders/jsonSchema.json", "graph")?.kind).toBe("part");
  expect(shapeOf("blocks/topic.json", "graph")).toBeUndefined();
  expect(shapeOf("other.json", "pipeline")).toBeUndefined();
});

test("a wrapped text is found again", () => {
  const shape = shapeOf("blocks/topic.json", "pipeline");
  if (shape?.kind !== "part") throw new Error("no part");
  const text = '{\n  "id": "topic"\n}\n';
  expect(unwrapText(wrapText(text, shape), shape)).toBe(text);
  expect(JSON.parse(wrapText(text, shape)).blocks).toEqual([{ id: "topic" }]);
  expect(unwrapText("{}", shape)).toBeUndefined();
});
