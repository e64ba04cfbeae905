import { expect, test } from "vitest";
import { readCopied, writeCopied } from "./clipboard";

test("a part is read as it was copied, and any other text is none", () => {
  const part = { format: "steps", list: "steps", text: '{"name": "a"} // why', needs: [] };
  expect(readCopied(writeCopied(part))).toEqual(part);
  const needs = [{ list: "agents", id: "helper", text: "{}" }];
  expect(readCopied(writeCopied({ ...part, needs }))?.needs).toEqual(needs);
  expect(
    readCopied('{"flowloom": {"format": "a", "list": "b", "text": "c", "needs": [null, {}]}}')?.needs,
  ).toEqual([]);
  expect(readCopied("hello")).toBeUndefined();
  expect(readCopied('{"flowloom": {"format": 1}}')).toBeUndefined();
  expect(readCopied("null")).toBeUndefined();
});
