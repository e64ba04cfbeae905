// Tokens and cost over time, and by model.
import { useState } from "react";
import type { Schemas } from "../../api/client";
import { t } from "../../strings";
import { formatCost, formatNumber, formatShortNumber, formatShortTime } from "../../ui/format";
import { TableHead } from "../../ui/table-head";
import { ChartPanel, INTERVALS, type Period, startOf, TimeTable } from "./chart-panel";

export type Sum = { tokens: number; microUsd: number; calls: number; unpriced: number };

export type Usage = {
  period: Period;
  total: Sum;
  intervals: Sum[];
  models: Map<string, Sum>;
  workflows: Map<string, Sum>;
};

const MAX_ROWS = 5;

export function sumUp({ since, interval_ms, items }: Schemas["ModelStatisticsSchema"]): Usage {
  const zero = (): Sum => ({ tokens: 0, microUsd: 0, calls: 0, unpriced: 0 });
  const total = zero();
  const intervals = Array.from({ length: INTERVALS }, zero);
  const models = new Map<string, Sum>();
  const workflows = new Map<string, Sum>();
  const named = (sums: Map<string, Sum>, name: string) => {
    const sum = sums.get(name) ?? zero();
    sums.set(name, sum);
    return sum;
  };
  for (const item of items) {
    const interval = intervals[Math.round((item.at - since) / interval_ms)] ?? zero();
    for (const sum of [total, interval, named(models, item.model), named(workflows, item.workflow)]) {
      sum.tokens += item.input_tokens + item.output_tokens;
      sum.microUsd += item.micro_usd;
      sum.calls += item.calls;
      sum.unpriced += item.unpriced_calls;
    }
  }
  return { period: { since, interval_ms }, total, intervals, models, workflows };
}

/** The known cost, and whether more is unknown. */
export function describeCost({ microUsd, unpriced, calls }: Sum): string {
  if (unpriced === calls) return t.run.unknownCost;
  return unpriced > 0 ? t.runs.chart.atLeast(formatCost(microUsd)) : formatCost(microUsd);
}

/** What the chart shows: its figure, as the bars, the axis and the head show it. */
type Measure = { title: string; figure: (sum: Sum) => number; show: (sum: Sum) => string };

const TOKENS: Measure = {
  title: t.runs.chart.tokens,
  figure: (sum) => sum.tokens,
  show: (sum) => formatNumber(sum.tokens),
};
const COST: Measure = { title: t.runs.chart.cost, figure: (sum) => sum.microUsd, show: describeCost };

/** Tokens over time, or their cost if it is known. */
export function UsageChart({ usage: { period, total, intervals } }: { usage: Usage }) {
  const [chosen, choose] = useState(TOKENS);
  const measure = total.microUsd > 0 ? chosen : TOKENS;
  const [other] = [TOKENS, COST].filter((one) => one !== measure);
  const [most = total] = intervals.toSorted((one, two) => measure.figure(two) - measure.figure(one));
  const bars = intervals.map((one, at) => {
    const start = startOf(period, at);
    const cost = one.calls === 0 ? "" : `, ${describeCost(one)}`;
    const height = (measure.figure(one) / Math.max(1, measure.figure(most))) * 100;
    return (
      <span
        key={start}
        className="chart-bar"
        title={`${formatShortTime(start)}: ${formatNumber(one.tokens)}${cost}`}
      >
        <i data-part="p50" style={{ height: `${height}%` }} />
      </span>
    );
  });
  const rows = intervals.map((one, at): [number, string[]] => {
    return [startOf(period, at), [formatNumber(one.tokens), one.calls === 0 ? "" : describeCost(one)]];
  });
  const head = (
    <>
      <span className="number">{measure.show(total)}</span>
      {total.microUsd > 0 && (
        <select
          className="chart-period"
          aria-label={t.runs.chart.measure}
          value={measure.title}
          onChange={() => other && choose(other)}
        >
          {[TOKENS, COST].map(({ title }) => (
            <option key={title}>{title}</option>
          ))}
        </select>
      )}
    </>
  );
  return (
    <ChartPanel
      title={measure.title}
      head={head}
      period={period}
      most={measure === COST ? formatCost(most.microUsd) : formatShortNumber(most.tokens)}
      legend={
        measure === TOKENS && <span className="soft number">{t.runs.chart.costOf(describeCost(total))}</span>
      }
      bars={bars}
      table={
        <TimeTable
          caption={t.runs.chart.costTable}
          columns={[t.runs.chart.tokens, t.runs.chart.cost]}
          rows={rows}
        />
      }
    />
  );
}

export function ModelTable({ sums }: { sums: Map<string, Sum> }) {
  const rows = [...sums].sort(([, one], [, other]) => other.tokens - one.tokens).slice(0, MAX_ROWS);
  return (
    <div className="panel chart-table-box">
      <table className="table chart-table number">
        <TableHead
          columns={[t.runs.chart.model, t.runs.chart.calls, t.runs.chart.tokens, t.runs.chart.cost]}
        />
        <tbody>
          {rows.map(([name, sum]) => (
            <tr key={name}>
              <td>{name}</td>
              <td>{formatNumber(sum.calls)}</td>
              <td>{formatShortNumber(sum.tokens)}</td>
              <td>{describeCost(sum)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
