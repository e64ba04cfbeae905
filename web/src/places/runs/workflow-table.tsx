// The runs of a period by workflow: how many, how they ended, how long they took, and what they used.
import { type ReactNode, useState } from "react";
import type { Schemas } from "../../api/client";
import { t } from "../../strings";
import { formatDuration, formatNumber, formatShortNumber } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { describeCost, type Sum } from "./model-charts";
import { useWorkflowNames, WorkflowLink } from "./workflow-link";

type WorkflowTableProps = {
  workflows: Ended[];
  /** What the model calls of workflows used. */
  usage: Map<string, Sum> | undefined;
};

type Ended = Schemas["WorkflowStatisticsSchema"];

/** A workflow: its ended runs, if there are any, and what all of its runs used. */
type Row = { workflow: string; runs: Ended | undefined; sum: Sum | undefined };

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

/** A column about the ended runs. */
function columnOf(
  label: string,
  read: (runs: Ended) => number,
  format = formatNumber,
  title?: string,
): Column {
  return {
    label,
    ...(title && { title }),
    figure: ({ runs }) => (runs ? read(runs) : -1),
    show: ({ runs }) => (runs ? format(read(runs)) : "–"),
  };
}

const COUNT = columnOf(chart.runs, (runs) => runs.count);

const RUN_COLUMNS: Column[] = [
  COUNT,
  columnOf(chart.failures, (runs) => runs.failures),
  columnOf(chart.cancelled, (runs) => runs.cancelled),
  columnOf("p50", (runs) => runs.median_ms, formatDuration, chart.median),
  columnOf("p95", (runs) => runs.p95_ms, formatDuration, chart.slow),
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

/** The workflows with ended runs, and those whose runs have used something and have not ended. */
function listRows(workflows: Ended[], usage: Map<string, Sum> | undefined): Row[] {
  const ended = new Map(workflows.map((runs) => [runs.workflow, runs]));
  const names = new Set([...ended.keys(), ...(usage?.keys() ?? [])]);
  return [...names].map((workflow) => ({
    workflow,
    runs: ended.get(workflow),
    sum: usage?.get(workflow),
  }));
}

export function WorkflowTable({ workflows, usage }: WorkflowTableProps) {
  const names = useWorkflowNames();
  const [{ label: sorted, figure }, sortBy] = useState(COUNT);
  const columns = usage ? [...RUN_COLUMNS, ...USAGE_COLUMNS] : RUN_COLUMNS;
  const all = listRows(workflows, usage);
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
            <tr key={row.workflow}>
              <td title={row.workflow}>
                <WorkflowLink id={row.workflow} names={names} />
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
