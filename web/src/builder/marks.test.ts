import { expect, test } from "vitest";
import type { Part } from "./definition";
import { groupProblems, mentionsOneOf } from "./marks";

test("a part has the mark of its worst problem", () => {
  const part = (name: string, start: number, length: number) =>
    ({ path: [name], start, length }) as unknown as Part;
  const parts = [part("whole", 0, 100), part("a", 10, 10), part("b", 20, 10)];
  const problems = [
    { start: 12, severity: "warning", message: "one" },
    { start: 22, severity: "error", message: "two" },
    { start: 25, severity: "warning", message: "three" },
    { start: null, severity: "error", message: "four" },
  ];
  expect(groupProblems({ parts }, problems).marks).toEqual(
    new Map([
      ["a", { severity: "warning", count: 1 }],
      ["b", { severity: "error", count: 2 }],
    ]),
  );
});

test("a problem belongs to the smallest part around it, and names its fields", () => {
  const part = { path: ["a"], start: 10, length: 10 } as unknown as Part;
  const problems = [
    { start: 12, severity: "error", message: 'mode "conditional" needs `condition`' },
    { start: null, severity: "error", message: "no steps" },
  ];
  const { messages } = groupProblems({ parts: [part] }, problems);
  expect(messages.get("a")).toEqual([problems[0]?.message]);
  expect(messages.get(undefined)).toEqual(["no steps"]);
  expect(mentionsOneOf(problems[0]?.message ?? "", ["condition"])).toBe(true);
  expect(mentionsOneOf(problems[0]?.message ?? "", ["conditions", "needs_it"])).toBe(false);
});
