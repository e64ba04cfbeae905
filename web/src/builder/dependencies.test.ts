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

type Entries = Record<string, string | number>;

/** `opened` has the values with which the form was opened. */
function arrange(fields: NamedField[], entries: Entries, opened = entries) {
  const hadValue = (name: string) => opened[name] !== undefined;
  const { first, more } = arrangeFields(fields, entries, { isPlain, hadValue });
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

test("a field keeps its place while it is entered", () => {
  const opened = { name: "a", mode: "sequential" };
  expect(arrange(STEP, { ...opened, timeoutMs: 5 }, opened)).toEqual(["name mode", "timeoutMs errorMode"]);
  expect(arrange(STEP, opened, { ...opened, timeoutMs: 5 })[0]).toBe("name mode timeoutMs");
  // What the chosen mode needed stays with its value.
  expect(arrange(STEP, { ...opened, until: "done" }, opened)[0]).toBe("name mode until");
});

test("a request has the fields of its method and its body", () => {
  const request: NamedField[] = ["url", "method", "bodyType", "body", "formData"].map((name) => [name, {}]);
  expect(arrange(request, { method: "GET" })).toEqual(["method", "url"]);
  expect(arrange(request, { method: "POST" })[0]).toBe("method bodyType body");
  expect(arrange(request, { method: "PUT", bodyType: "form" })[0]).toBe("method bodyType formData");
  expect(arrange(request, { method: "${method}", bodyType: "text" })[0]).toBe("method bodyType body");
  expect(arrange(request, { method: "GET", bodyType: "form" })[0]).toBe("method bodyType");
  const page: NamedField[] = ["captureAs", "querySelector"].map((name) => [name, {}]);
  expect(arrange(page, { captureAs: "text" })).toEqual(["captureAs", ""]);
  expect(arrange(page, { captureAs: "querySelector" })).toEqual(["captureAs querySelector", ""]);
});
