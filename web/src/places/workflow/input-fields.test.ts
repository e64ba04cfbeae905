import { expect, test } from "vitest";
import { listInputFields, readInputs, toEntries } from "./input-fields";

const inputs = [
  { name: "city", kind: "text", is_file: false, required: true },
  { name: "days", kind: "number", is_file: false, required: false },
  { name: "tags", kind: "list", is_file: false, required: false },
];

test("inputs are the same after they were shown in a form", () => {
  const fields = listInputFields({ format: "flow", inputs });
  const given = { city: "Bonn", days: 3, tags: ["a"] };
  expect(readInputs(fields, toEntries(fields, given))).toEqual(given);
});

test("the input of a step list is text, and JSON if it is an object or a list", () => {
  const fields = listInputFields({
    format: "steps",
    inputs: [{ name: "input", kind: "any", is_file: false, required: true }],
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
      { name: "city", kind: "text", is_file: false, required: false, default: "Bonn" },
      { name: "days", kind: "number", is_file: false, required: false, default: 3 },
      { name: "notes", kind: "text", is_file: false, required: false },
    ],
  });
  expect(toEntries(fields, {})).toEqual({ city: "Bonn", days: "3", notes: "" });
});

test("a wrong number is reported with the name of its field", () => {
  const fields = listInputFields({ format: "flow", inputs });
  expect(() => readInputs(fields, { city: "Bonn", days: "many" })).toThrow("“days” needs a number.");
});

test("a list has one item on each line, or is JSON", () => {
  const fields = listInputFields({ format: "flow", inputs });
  const read = (tags: string) => readInputs(fields, { city: "Bonn", tags });
  expect(read(" a, b\n\nc ")).toEqual({ city: "Bonn", tags: ["a, b", "c"] });
  expect(read("[1, 2]")).toEqual({ city: "Bonn", tags: [1, 2] });
  for (const tags of [["a", "b"], ["[a", "b"], ["a\nb"], ["", 1]]) {
    const entries = toEntries(fields, { city: "Bonn", tags });
    expect(readInputs(fields, entries)).toEqual({ city: "Bonn", tags });
  }
});

test("a file is the content that was chosen, and a required input cannot be missing", () => {
  const file = { name: "paper", kind: "text", is_file: true, required: true };
  const fields = listInputFields({ format: "markdown", inputs: [file] });
  const content = { $file: { name: "a.txt", mime: "text/plain", base64: "YQ==" } };
  expect(readInputs(fields, { paper: JSON.stringify(content) })).toEqual({ paper: content });
  expect(() => readInputs(fields, { paper: "" })).toThrow("Choose something for “paper”.");
});
