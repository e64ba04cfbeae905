import { expect, test } from "vitest";
import { describeQuestion, findTurn, readApproval } from "./approval";

test("an approval names its tool and the arguments", () => {
  const question = 'Allow echo_a_topic with {"topic":"Why?\\nstorms","days":2}?';
  expect(readApproval(question)).toEqual({
    tool: "echo_a_topic",
    arguments: { topic: "Why?\nstorms", days: 2 },
  });
  expect(describeQuestion(question)).toBe("Allow echo_a_topic?");
  expect(findTurn("/turn~1[0]/tool~1[0]/approval~1")).toBe("/turn~1[0]");
});

test("other questions stay as they are", () => {
  for (const question of ["Send this reply?", "Allow it with care?", "Allow a b with {}?"]) {
    expect(readApproval(question)).toBeUndefined();
    expect(describeQuestion(question)).toBe(question);
  }
});
