import { expect, test } from "vitest";
import { diffLines } from "./diff";

function draw(before: string, after: string): string[] {
  const marks = { same: " ", removed: "-", added: "+" };
  return diffLines(before, after).map((line) => marks[line.change] + line.text);
}

test("lines that differ are shown between those that do not", () => {
  expect(draw("a\nb\nc\nd", "a\nx\nc\ny\nd")).toEqual([" a", "-b", "+x", " c", "+y", " d"]);
  expect(draw("a", "a")).toEqual([" a"]);
  expect(draw("", "new")).toEqual(["+new"]);
  expect(draw("old\n", "")).toEqual(["-old", "-"]);
});
