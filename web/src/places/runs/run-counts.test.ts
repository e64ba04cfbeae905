import { expect, test } from "vitest";
import { countRuns, describeCounts, sumCounts, totalOf } from "./run-counts";

test("cancelled runs are no failures, and runs that have not ended are neither", () => {
  const statuses = ["succeeded", "failed", "timed_out", "budget_exceeded", "cancelled", "waiting", "running"];
  const counts = statuses.map((status) => ({ at: 2000, status, count: 1 }));
  const intervals = countRuns({ since: 1000, interval_ms: 1000, counts });
  expect(intervals[1]).toEqual({ at: 2000, succeeded: 1, failed: 3, cancelled: 1, other: 2 });
  const sum = sumCounts(intervals);
  expect(totalOf(sum)).toBe(7);
  expect(describeCounts(sum)).toBe("1 succeeded, 2 not ended, 1 cancelled, 3 failed");
});
