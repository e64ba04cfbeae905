import { expect, test } from "vitest";
import { describeUsage } from "./run-usage";

test("a run has its tokens and its cost, which may be unknown; one that called no model has neither", () => {
  const used = describeUsage({ input_tokens: 12_000, output_tokens: 345, cost_usd: 0.0123 });
  expect(used).toEqual({ tokens: "12.3K", inOut: "12,000 in, 345 out", cost: "$0.012" });
  expect(describeUsage({ input_tokens: 1, output_tokens: 1, cost_usd: null })?.cost).toBeUndefined();
  expect(describeUsage({ input_tokens: 1, output_tokens: 1, cost_usd: 0 })?.cost).toBe("$0");
  expect(describeUsage(null)).toBeUndefined();
});
