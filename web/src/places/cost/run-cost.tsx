// The cost of a run in one line, which unfolds to the whole plan.
import { t } from "../../strings";
import { CostPlan, type CostRequest, describeCost, useEstimate } from "./cost-plan";

type RunCostProps = { request: CostRequest; onStep: (path: string) => void };

export function RunCost({ request, onStep }: RunCostProps) {
  const { data } = useEstimate(request);
  if (!data?.is_compiled) return null;
  return (
    <details className="cost-summary">
      <summary>
        {t.cost.runTitle}: {t.cost.worst.toLowerCase()} <b className="number">{describeCost(data)}</b>
      </summary>
      <CostPlan request={request} onStep={onStep} />
    </details>
  );
}
