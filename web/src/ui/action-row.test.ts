import { expect, test } from "vitest";
import { countFitting } from "./action-row";

test("buttons that do not fit into one line are left to the menu, which needs room itself", () => {
  const texts = ["Run this step", "Fork from here", "Retry from here"];
  expect(countFitting(texts, 800)).toBe(3);
  expect(countFitting(texts, 400)).toBe(2);
  expect(countFitting(texts, 290)).toBe(1);
  expect(countFitting(texts, 100)).toBe(0);
  // The last one needs no menu after it.
  expect(countFitting(["Run this step"], 140)).toBe(1);
});
