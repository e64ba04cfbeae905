import { expect, test } from "vitest";
import { changedValues, entryOf } from "./values";

test("only what was changed is sent, a text as a text and the rest as JSON", () => {
  const values = { mood: "angry", count: 3, list: ["a"] };
  const same = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, entryOf(value)]));
  expect(changedValues(values, same)).toEqual({});
  expect(changedValues(values, { ...same, mood: "[calm]", count: "4" })).toEqual({
    mood: "[calm]",
    count: 4,
  });
  expect(() => changedValues(values, { list: "no JSON" })).toThrow(SyntaxError);
});
