// The frame of a chart over time: what it adds up to, the largest value as its axis, bars, and the same as a table.
import type { ReactNode } from "react";
import { t } from "../../strings";
import { formatShortTime } from "../../ui/format";
import { TableHead } from "../../ui/table-head";

/** The intervals of a period. */
export const INTERVALS = 24;

export type Period = { since: number; interval_ms: number };

/** The start of an interval of a period. */
export function startOf({ since, interval_ms }: Period, interval: number): number {
  return since + interval * interval_ms;
}

type ChartPanelProps = {
  title: string;
  /** Next to the title. */
  head: ReactNode;
  period: Period;
  /** The largest value, as the bars show it. */
  most: string;
  /** What the parts of the bars are. */
  legend?: ReactNode;
  bars: ReactNode;
  /** The same for screen readers. */
  table: ReactNode;
};

export function ChartPanel({ title, head, period, most, legend, bars, table }: ChartPanelProps) {
  return (
    <div className="panel chart">
      <header>
        <h2>{title}</h2>
        {head}
      </header>
      <div className="chart-area" aria-hidden="true">
        <span className="chart-most faint number">{most}</span>
        <div className="chart-bars">{bars}</div>
      </div>
      <div className="chart-axis faint number" aria-hidden="true">
        <span>{formatShortTime(period.since)}</span>
        <span>{formatShortTime(startOf(period, INTERVALS - 1))}</span>
      </div>
      {legend && <div className="chart-legend">{legend}</div>}
      {table}
    </div>
  );
}

type TimeTableProps = {
  caption: string;
  columns: string[];
  /** The time of each row, and its cells. */
  rows: [number, string[]][];
};

/** The values of a chart as a table that only screen readers see. */
export function TimeTable({ caption, columns, rows }: TimeTableProps) {
  return (
    <table className="unseen">
      <caption>{caption}</caption>
      <TableHead columns={[t.runs.chart.hour, ...columns]} />
      <tbody>
        {rows.map(([at, cells]) => (
          <tr key={at}>
            {[formatShortTime(at), ...cells].map((cell, column) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: cells have no identity but their column.
              <td key={column}>{cell}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
