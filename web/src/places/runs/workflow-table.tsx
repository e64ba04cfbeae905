// The ended runs of a period by workflow: how many, how they ended, how long they took, and what they used.
import { type ReactNode, useState } from "react";
import type { Schemas } from "../../api/client";
import { t } from "../../strings";
import { formatDuration, formatNumber, formatShortNumber } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { describeCost, type Sum } from "./model-charts";
import { useWorkflowNames, WorkflowLink } from "./workflow-link";

type WorkflowTableProps = {
  workflows: Schemas["WorkflowStatisticsSchema"][];
  /** What the model calls of workflows used. */
  usage: Map<string, Sum> | undefined;
};

type Row = { runs: Schemas["WorkflowStatisticsSchema"]; sum: Sum | undefined };

/** A column of figures, by which the rows can be sorted. */
type Column = {
  label: string;
  title?: string;
  /** The figure that decides the order. */
  figure: (row: Row) => number;
  show: (row: Row) => ReactNode;
};

const MAX_WORKFLOWS = 8;

const chart = t.runs.chart;

const COUNT: Column = {
  label: chart.runs,
  figure: ({ runs }) => runs.count,
  show: ({ runs }) => formatNumber(runs.count),
};

const RUN_COLUMNS: Column[] = [
  COUNT,
  {
    label: chart.failures,
    figure: ({ runs }) => runs.failures,
    show: ({ runs }) => formatNumber(runs.failures),
  },
  {
    label: chart.cancelled,
    figure: ({ runs }) => runs.cancelled,
    show: ({ runs }) => formatNumber(runs.cancelled),
  },
  {
    label: "p50",
    title: chart.median,
    figure: ({ runs }) => runs.median_ms,
    show: ({ runs }) => formatDuration(runs.median_ms),
  },
  {
    label: "p95",
    title: chart.slow,
    figure: ({ runs }) => runs.p95_ms,
    show: ({ runs }) => formatDuration(runs.p95_ms),
  },
];

const USAGE_COLUMNS: Column[] = [
  {
    label: chart.tokens,
    figure: ({ sum }) => sum?.tokens ?? 0,
    show: ({ sum }) => sum && formatShortNumber(sum.tokens),
  },
  {
    label: chart.cost,
    figure: ({ sum }) => sum?.microUsd ?? 0,
    show: ({ sum }) => sum && describeCost(sum),
  },
];

export function WorkflowTable({ workflows, usage }: WorkflowTableProps) {
  const names = useWorkflowNames();
  const [{ label: sorted, figure }, sortBy] = useState(COUNT);
  const columns = usage ? [...RUN_COLUMNS, ...USAGE_COLUMNS] : RUN_COLUMNS;
  const all = workflows.map((runs): Row => ({ runs, sum: usage?.get(runs.workflow) }));
  const rows = all.sort((one, other) => figure(other) - figure(one)).slice(0, MAX_WORKFLOWS);
  return (
    <div className="panel chart-table-box">
      <table className="table chart-table number">
        <thead>
          <tr>
            <th scope="col">{t.runs.workflow}</th>
            {columns.map((column) => (
              <th
                key={column.label}
                scope="col"
                title={column.title}
                aria-sort={column.label === sorted ? "descending" : undefined}
              >
                <button type="button" className="sort-button" onClick={() => sortBy(column)}>
                  {column.label === sorted && <Icon name="down" />}
                  {column.label}
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.runs.workflow}>
              <td title={row.runs.workflow}>
                <WorkflowLink id={row.runs.workflow} names={names} />
              </td>
              {columns.map((column) => (
                <td key={column.label}>{column.show(row)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
