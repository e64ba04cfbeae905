import { expect, test } from "vitest";
import type { Part } from "./definition";
import { markParts } from "./marks";

test("a part has the mark of its worst problem", () => {
  const part = (name: string, start: number, length: number) =>
    ({ path: [name], start, length }) as unknown as Part;
  const parts = [part("whole", 0, 100), part("a", 10, 10), part("b", 20, 10)];
  const problems = [
    { start: 12, severity: "warning" },
    { start: 22, severity: "error" },
    { start: 25, severity: "warning" },
    { start: null, severity: "error" },
  ];
  expect(markParts({ parts }, problems)).toEqual(
    new Map([
      ["a", "warning"],
      ["b", "error"],
    ]),
  );
});
