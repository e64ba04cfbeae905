import { expect, test } from "vitest";
import { arrangeFields, type NamedField } from "./dependencies";

const STEP: NamedField[] = [
  ["name", {}],
  ["mode", { enum: ["sequential", "conditional", "loop"] }],
  ["timeoutMs", {}],
  ["errorMode", { enum: ["fail", "retry"], default: "fail" }],
  ["maxRetries", {}],
  ["condition", {}],
  ["maxIterations", {}],
  ["until", {}],
];
const isPlain = ([name]: NamedField) => name === "name";

function arrange(fields: NamedField[], entries: Record<string, string | number>) {
  const { first, more } = arrangeFields(fields, entries, isPlain);
  return [first.map(([name]) => name).join(" "), more.map(([name]) => name).join(" ")];
}

test("the fields of the chosen mode follow it, and those of other modes are left out", () => {
  expect(arrange(STEP, { name: "a", mode: "sequential" })).toEqual(["name mode", "timeoutMs errorMode"]);
  expect(arrange(STEP, { name: "a", mode: "conditional" })[0]).toBe("name mode condition");
  expect(arrange(STEP, { name: "a", mode: "loop" })[0]).toBe("name mode maxIterations until");
  expect(arrange(STEP, { mode: "sequential", errorMode: "retry" })[0]).toBe("name mode errorMode maxRetries");
});

test("a field with a value stays, whatever is chosen", () => {
  expect(arrange(STEP, { mode: "sequential", until: "done" })[0]).toBe("name mode until");
  expect(arrange(STEP, { mode: "sequential", maxRetries: 2 })[0]).toBe("name mode maxRetries");
});

test("a field that is explained for a type belongs to that type, and one alone to everything", () => {
  const input: NamedField[] = [
    ["name", {}],
    ["options", { description: "For type select: values, or {name, value}" }],
    ["type", { enum: ["text", "select"] }],
  ];
  expect(arrange(input, { type: "select" })).toEqual(["name type options", ""]);
  expect(arrange(input, { type: "text" })).toEqual(["name type", ""]);
  // Without the other field there is nothing to depend on.
  expect(arrange([["condition", {}]], {})).toEqual(["", "condition"]);
});
