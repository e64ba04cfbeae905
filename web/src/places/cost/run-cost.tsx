// The cost of a run in one line, which unfolds to the whole plan.
import { t } from "../../strings";
import { CostPlan, type CostRequest, summarizeCost, useEstimate } from "./cost-plan";

type RunCostProps = { request: CostRequest; onStep: (path: string) => void };

export function RunCost({ request, onStep }: RunCostProps) {
  const { data } = useEstimate(request);
  if (!data?.is_compiled) return null;
  return (
    <details className="cost-summary">
      <summary>
        {t.cost.runTitle}: <b className="number">{summarizeCost(data)}</b>
      </summary>
      <CostPlan request={request} onStep={onStep} />
    </details>
  );
}
