import { expect, test } from "vitest";
import { formatAmount, formatBytes } from "./format";

test("sizes have three digits and the unit that fits", () => {
  expect([0, 999, 1000, 1_234_567, 5e9].map(formatBytes)).toEqual([
    "0 bytes",
    "999 bytes",
    "1.00 KB",
    "1.23 MB",
    "5.00 GB",
  ]);
  expect(formatAmount(12, "runs")).toBe("12");
  expect(formatAmount(90, "seconds")).toBe("1 min 30 s");
  expect(formatAmount(2.5, "dollars")).toBe("$2.50");
  expect(formatAmount(2_500_000, "bytes")).toBe("2.50 MB");
});
