import { expect, test } from "vitest";
import { findMissing, InvalidEntry, listFields, readEntries } from "./schema-form";

test("a required text without content is missing", () => {
  const fields = listFields(undefined);
  expect(findMissing(fields, { "": " \n" })).toBe(fields[0]);
  expect(findMissing(fields, { "": "yes" })).toBeUndefined();
});

test("a number is entered as a number only", () => {
  const fields = listFields({ type: "object", properties: { count: { type: "number" } } });
  expect(readEntries(fields, { count: " -1.5 " })).toEqual({ count: -1.5 });
  expect(readEntries(fields, { count: "" })).toEqual({});
  for (const wrong of ["1e", "true", "[1]", "1,5"]) {
    expect(() => readEntries(fields, { count: wrong })).toThrow(InvalidEntry);
  }
});
