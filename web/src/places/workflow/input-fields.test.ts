import { expect, test } from "vitest";
import { listInputFields, readInputs, toEntries } from "./input-fields";

const inputs = [
  { name: "city", kind: "text", required: true },
  { name: "days", kind: "number", required: false },
  { name: "tags", kind: "list", required: false },
];

test("inputs are the same after they were shown in a form", () => {
  const fields = listInputFields({ format: "flow", inputs });
  const given = { city: "Bonn", days: 3, tags: ["a"] };
  expect(readInputs(fields, toEntries(fields, given))).toEqual(given);
});

test("the input of a step list is text, and JSON if it is an object or a list", () => {
  const fields = listInputFields({
    format: "steps",
    inputs: [{ name: "input", kind: "any", required: true }],
  });
  const read = (text: string) => readInputs(fields, { "": text });
  expect([read("3 lamps"), read('{"a": 1}'), read("[draft] hello")]).toEqual([
    "3 lamps",
    { a: 1 },
    "[draft] hello",
  ]);
  expect(toEntries(fields, { a: 1 })[""]).toContain('"a": 1');
  expect(toEntries(fields, {})[""]).toBe("");
});

test("a form begins with the defaults of the inputs", () => {
  const fields = listInputFields({
    format: "markdown",
    inputs: [
      { name: "city", kind: "text", required: false, default: "Bonn" },
      { name: "days", kind: "number", required: false, default: 3 },
      { name: "notes", kind: "text", required: false },
    ],
  });
  expect(toEntries(fields, {})).toEqual({ city: "Bonn", days: "3", notes: "" });
});

test("a wrong number is reported with the name of its field", () => {
  const fields = listInputFields({ format: "flow", inputs });
  expect(() => readInputs(fields, { city: "Bonn", days: "many" })).toThrow("“days” needs a number.");
});
