// Tokens and cost over time and by model, from a route that aggregates in the database.
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, read, type Schemas } from "../../api/client";
import { t } from "../../strings";
import { formatCost, formatNumber, formatShortNumber, formatShortTime } from "../../ui/format";
import { useWorkflowNames, WorkflowLink } from "./workflow-link";

type Statistics = Schemas["ModelStatisticsSchema"];
type Sum = { tokens: number; microUsd: number; calls: number; unpriced: number };

/** The route reads the events of every run of the period. */
const REFRESH_MS = 60_000;
const INTERVALS = 24;
const MAX_ROWS = 5;

export function ModelCharts({ days }: { days: number }) {
  const { data } = useQuery({
    queryKey: ["runs", "models", days],
    queryFn: () => read(api.GET("/api/v1/statistics/models", { params: { query: { days } } })),
    refetchInterval: REFRESH_MS,
    staleTime: REFRESH_MS,
  });
  const sums = useMemo(() => data && sumUp(data), [data]);
  const names = useWorkflowNames();
  if (!data || !sums || data.items.length === 0) return null;
  const { total, intervals, models, workflows } = sums;
  return (
    <section className="charts">
      <div className="panel chart">
        <header>
          <h2>{t.runs.chart.tokens}</h2>
          <span className="number">{formatNumber(total.tokens)}</span>
          <span className="number soft">{describeCost(total)}</span>
        </header>
        <SumBars
          since={data.since}
          intervalMs={data.interval_ms}
          intervals={intervals}
          amountOf={(sum) => sum.tokens}
        />
        <UsageByTime since={data.since} intervalMs={data.interval_ms} intervals={intervals} />
      </div>
      {total.microUsd > 0 && (
        <div className="panel chart">
          <header>
            <h2>{t.runs.chart.cost}</h2>
            <span className="number">{describeCost(total)}</span>
          </header>
          <SumBars
            since={data.since}
            intervalMs={data.interval_ms}
            intervals={intervals}
            amountOf={(sum) => sum.microUsd}
          />
        </div>
      )}
      <div className="panel chart chart-tables">
        <UsageTable title={t.runs.chart.model} sums={models} />
        <UsageTable title={t.runs.workflow} sums={workflows} names={names} />
      </div>
    </section>
  );
}

function sumUp({ since, interval_ms, items }: Statistics) {
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
  return { total, intervals, models, workflows };
}

/** The known cost, and whether more is unknown. */
function describeCost({ microUsd, unpriced, calls }: Sum): string {
  if (unpriced === calls) return t.run.unknownCost;
  return unpriced > 0 ? t.runs.chart.atLeast(formatCost(microUsd)) : formatCost(microUsd);
}

type BarsProps = { since: number; intervalMs: number; intervals: Sum[] };

function SumBars({ since, intervalMs, intervals, amountOf }: BarsProps & { amountOf: (sum: Sum) => number }) {
  const most = Math.max(1, ...intervals.map(amountOf));
  return (
    <>
      <div className="chart-bars" aria-hidden="true">
        {intervals.map((one, at) => (
          <span
            // biome-ignore lint/suspicious/noArrayIndexKey: intervals have no identity but their position.
            key={at}
            className="chart-bar"
            title={`${formatShortTime(since + at * intervalMs)}: ${formatNumber(one.tokens)}, ${describeCost(one)}`}
          >
            <i data-state="running" style={{ height: `${(amountOf(one) / most) * 100}%` }} />
          </span>
        ))}
      </div>
      <div className="chart-axis faint number" aria-hidden="true">
        <span>{formatShortTime(since)}</span>
        <span>{formatShortTime(since + (INTERVALS - 1) * intervalMs)}</span>
      </div>
    </>
  );
}

/** The same for screen readers. */
function UsageByTime({ since, intervalMs, intervals }: BarsProps) {
  return (
    <table className="unseen">
      <caption>{t.runs.chart.costTable}</caption>
      <thead>
        <tr>
          <th scope="col">{t.runs.chart.hour}</th>
          <th scope="col">{t.runs.chart.tokens}</th>
          <th scope="col">{t.runs.chart.cost}</th>
        </tr>
      </thead>
      <tbody>
        {intervals.map((one, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: intervals have no identity but their position.
          <tr key={at}>
            <td>{formatShortTime(since + at * intervalMs)}</td>
            <td>{formatNumber(one.tokens)}</td>
            <td>{one.calls === 0 ? "" : describeCost(one)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

type UsageTableProps = {
  title: string;
  sums: Map<string, Sum>;
  /** The names of workflows, if the rows are workflows. */
  names?: ReadonlyMap<string, string>;
};

function UsageTable({ title, sums, names }: UsageTableProps) {
  const rows = [...sums].sort(([, one], [, other]) => other.tokens - one.tokens).slice(0, MAX_ROWS);
  return (
    <table className="table chart-table number">
      <thead>
        <tr>
          <th scope="col">{title}</th>
          <th scope="col">{t.runs.chart.calls}</th>
          <th scope="col">{t.runs.chart.tokens}</th>
          <th scope="col">{t.runs.chart.cost}</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, sum]) => (
          <tr key={name}>
            <td className="cut">{names ? <WorkflowLink id={name} names={names} /> : name}</td>
            <td>{formatNumber(sum.calls)}</td>
            <td>{formatShortNumber(sum.tokens)}</td>
            <td>{sum.unpriced === sum.calls ? t.runs.chart.unknown : describeCost(sum)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
