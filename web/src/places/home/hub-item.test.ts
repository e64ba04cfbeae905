import { expect, test } from "vitest";
import { unwrapFlow } from "./hub-item";

const STEPS = [{ type: "llmInstruction", config: { instruction: "Hi", resultVariable: "a" } }];
const FLOW = { name: "Greeting", steps: STEPS };

test("a flow is taken out of what it came in", () => {
  const inner = { name: "inner", steps: STEPS };
  const items = [
    { success: true, item: { itemType: "agent-flow", name: "Greeting", flow: JSON.stringify(inner) } },
    { name: "Greeting", flow: JSON.stringify(inner) },
    { item: { name: "Greeting", flow: { steps: STEPS } } },
    { success: true, flow: { name: "Greeting", uuid: "u", config: inner } },
  ];
  for (const item of items) expect(JSON.parse(unwrapFlow(JSON.stringify(item)))).toEqual(FLOW);
});

test("every other text stays as it is", () => {
  for (const text of [
    JSON.stringify(FLOW),
    "---\ntitle: A\n---\n",
    '{"flow": "text"}',
    '{"item": {"flow": "{"}}',
    "[1]",
  ]) {
    expect(unwrapFlow(text)).toBe(text);
  }
});
