// The tokens and the cost of model calls.
import type { Usage } from "../../run/record";
import { t } from "../../strings";
import { formatCost, formatNumber } from "../../ui/format";

export function UsageFact({ usage }: { usage: Usage }) {
  return (
    <div>
      <dt>{t.run.tokens}</dt>
      <dd className="number">
        {t.run.inOut(formatNumber(usage.input_tokens), formatNumber(usage.output_tokens))}
        {usage.micro_usd !== undefined && ` · ${formatCost(usage.micro_usd)}`}
      </dd>
    </div>
  );
}
