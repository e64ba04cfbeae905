import { expect, test } from "vitest";
import { createAttemptKey } from "./attempt";

test("keys differ, and have one form", () => {
  const keys = Array.from({ length: 100 }, createAttemptKey);
  expect(new Set(keys).size).toBe(100);
  for (const key of keys) expect(key).toMatch(/^[0-9a-f]{32}$/);
});
