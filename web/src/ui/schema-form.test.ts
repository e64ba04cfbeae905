import { expect, test } from "vitest";
import { findMissing, listFields } from "./schema-form";

test("a required text without content is missing", () => {
  const fields = listFields(undefined);
  expect(findMissing(fields, { "": " \n" })).toBe(fields[0]);
  expect(findMissing(fields, { "": "yes" })).toBeUndefined();
});
