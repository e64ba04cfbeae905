import { expect, test } from "vitest";
import { belowOf } from "./context";
import { canBind, insertReference, isBound, readData, writeData } from "./data-text";

const LIST = { type: "array", "x-widget": "template", "x-references": "{{}}" } as const;

test("a list, an object, a truth value or a choice of a pipeline can be a reference", () => {
  expect(canBind(LIST)).toBe(true);
  expect(canBind({ ...LIST, type: "boolean" })).toBe(true);
  expect(canBind({ ...LIST, type: "string", enum: ["eq"] })).toBe(true);
  expect(canBind({ ...LIST, type: "string" })).toBe(false);
  expect(canBind({ ...LIST, "x-references": "${}" })).toBe(false);
  expect(canBind({ type: "array" })).toBe(false);
  expect(isBound(LIST, "{{a.items}}")).toBe(true);
  expect(isBound(LIST, ["{{a.items}}"])).toBe(false);
  expect(isBound({ ...LIST, type: "boolean" }, "{{a.is_new}}")).toBe(true);
  expect(isBound({ ...LIST, type: "boolean" }, "yes")).toBe(false);
});

test("the rows of a list take references like the list", () => {
  expect(belowOf(LIST, undefined)).toEqual({ "x-widget": "template", "x-references": "{{}}" });
  expect(belowOf(LIST, { type: "string" })).toEqual({ type: "string" });
  expect(belowOf({ type: "array" }, undefined)).toEqual({});
});

test("a text of data is JSON or one reference", () => {
  expect(readData(" {{a.items}} ", "{{}}")).toBe("{{a.items}}");
  expect(readData('["{{a.item}}", 1]', "{{}}")).toEqual(["{{a.item}}", 1]);
  expect(readData("{{a.x}} and {{a.y}}", "{{}}")).toBeUndefined();
  expect(readData("[", "{{}}")).toBeUndefined();
  expect(writeData([])).toBe("");
  expect(writeData("{{a.items}}")).toBe("{{a.items}}");
});

test("a reference is inserted so that the text can be stored", () => {
  const insert = (text: string, from: number, to = from) =>
    insertReference({ text, from, to, reference: "{{a.b}}" }, (one) => readData(one, "{{}}") !== undefined);
  expect(insert("", 0)).toBe("{{a.b}}");
  expect(insert('["x "]', 4)).toBe('["x {{a.b}}"]');
  expect(insert('["x", ]', 6)).toBe('["x", "{{a.b}}"]');
  expect(insert("true", 4)).toBe("{{a.b}}");
  // Nothing is lost where nothing fits.
  expect(insert('["x" "y"]', 5)).toBe('["x" {{a.b}}"y"]');
});
