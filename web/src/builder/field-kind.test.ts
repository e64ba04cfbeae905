import { expect, test } from "vitest";
import { fieldKind } from "./field-kind";

test("a truth value is never entered as text", () => {
  const kinds = [undefined, null, true, "no", 1].map((value) => fieldKind({ type: "boolean" }, value));
  expect(kinds).toEqual(Array(5).fill("boolean"));
  expect(fieldKind({ type: "boolean" }, { a: 1 })).toBe("json");
});
