// The ended runs of a period by workflow: how many, how they ended, how long they took, and what they used.
import type { Schemas } from "../../api/client";
import { t } from "../../strings";
import { formatDuration, formatNumber, formatShortNumber } from "../../ui/format";
import { describeCost, type Sum } from "./model-charts";
import { useWorkflowNames, WorkflowLink } from "./workflow-link";

type WorkflowTableProps = {
  workflows: Schemas["WorkflowStatisticsSchema"][];
  /** What the model calls of workflows used. */
  usage: Map<string, Sum> | undefined;
};

const MAX_WORKFLOWS = 8;

export function WorkflowTable({ workflows, usage }: WorkflowTableProps) {
  const names = useWorkflowNames();
  const chart = t.runs.chart;
  return (
    <div className="panel chart-table-box">
      <table className="table chart-table number">
        <thead>
          <tr>
            <th scope="col">{t.runs.workflow}</th>
            <th scope="col">{chart.runs}</th>
            <th scope="col">{chart.failures}</th>
            <th scope="col">{chart.cancelled}</th>
            <th scope="col" title={chart.median}>
              p50
            </th>
            <th scope="col" title={chart.slow}>
              p95
            </th>
            {usage && <th scope="col">{chart.tokens}</th>}
            {usage && <th scope="col">{chart.cost}</th>}
          </tr>
        </thead>
        <tbody>
          {workflows.slice(0, MAX_WORKFLOWS).map((one) => {
            const sum = usage?.get(one.workflow);
            return (
              <tr key={one.workflow}>
                <td title={one.workflow}>
                  <WorkflowLink id={one.workflow} names={names} />
                </td>
                <td>{formatNumber(one.count)}</td>
                <td>{formatNumber(one.failures)}</td>
                <td>{formatNumber(one.cancelled)}</td>
                <td>{formatDuration(one.median_ms)}</td>
                <td>{formatDuration(one.p95_ms)}</td>
                {usage && <td>{sum && formatShortNumber(sum.tokens)}</td>}
                {usage && <td>{sum && describeCost(sum)}</td>}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
