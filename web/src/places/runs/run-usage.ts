// What a run used, as a table shows it.
import type { Schemas } from "../../api/client";
import { t } from "../../strings";
import { formatCost, formatNumber, formatShortNumber } from "../../ui/format";

export type UsedText = {
  tokens: string;
  /** The tokens of the prompts and of the answers. */
  inOut: string;
  /** Undefined if the price of a model is not known. */
  cost: string | undefined;
};

/** Tokens and cost of a run; undefined if it called no model. */
export function describeUsage(usage: Schemas["RunUsage"] | null | undefined): UsedText | undefined {
  if (!usage) return undefined;
  const { input_tokens: input, output_tokens: output, cost_usd: cost } = usage;
  return {
    tokens: formatShortNumber(input + output),
    inOut: t.run.inOut(formatNumber(input), formatNumber(output)),
    cost: cost == null ? undefined : formatCost(cost * 1e6),
  };
}
