import { expect, test } from "vitest";
import { readCopied, writeCopied } from "./clipboard";

test("a part is read as it was copied, and any other text is none", () => {
  const part = { format: "steps", list: "steps", text: '{"name": "a"} // why' };
  expect(readCopied(writeCopied(part))).toEqual(part);
  expect(readCopied("hello")).toBeUndefined();
  expect(readCopied('{"flowloom": {"format": 1}}')).toBeUndefined();
  expect(readCopied("null")).toBeUndefined();
});
