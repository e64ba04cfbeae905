// Runs, durations and tokens over time in one row, and the same by workflow and model. Routes aggregate in the database.
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import { api, read, type Schemas } from "../../api/client";
import type { RunStatus } from "../../run/record";
import { t } from "../../strings";
import { formatNumber, formatShortTime } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { STATE_ICONS } from "../../ui/state";
import { ChartPanel, TimeTable } from "./chart-panel";
import { DurationChart } from "./duration-chart";
import { ModelTable, sumUp, UsageChart } from "./model-charts";
import { type Counts, countRuns, describeCounts, ENDS, sumCounts, totalOf } from "./run-counts";
import { WorkflowTable } from "./workflow-table";

type Statistics = Schemas["RunStatisticsSchema"];

const REFRESH_MS = 15_000;
/** The route of the models reads the events of every run of the period. */
const MODELS_REFRESH_MS = 60_000;
const PERIODS = [1, 7, 30];

/** The filters of the table that the statistics have, too. */
export type ChartFilter = { status?: string; workflow?: string; trigger?: string };

export function Charts({ days, filter }: { days: number; filter: ChartFilter }) {
  const query = { days, ...filter };
  const runs = useQuery({
    queryKey: ["runs", "statistics", query],
    queryFn: () => read(api.GET("/api/v1/statistics", { params: { query } })),
    refetchInterval: REFRESH_MS,
    placeholderData: (before) => before,
  });
  const models = useQuery({
    queryKey: ["runs", "models", query],
    queryFn: () => read(api.GET("/api/v1/statistics/models", { params: { query } })),
    refetchInterval: MODELS_REFRESH_MS,
    staleTime: MODELS_REFRESH_MS,
    placeholderData: (before) => before,
  });
  const usage = useMemo(() => models.data && sumUp(models.data), [models.data]);
  if (!runs.data) return null;
  const hasUsage = usage !== undefined && usage.total.calls > 0;
  return (
    <section className="statistics" aria-label={t.runs.chart.statistics}>
      <div className="charts">
        <RunChart statistics={runs.data} days={days} />
        {runs.data.durations.length > 0 && <DurationChart statistics={runs.data} />}
        {hasUsage && <UsageChart usage={usage} />}
      </div>
      {(runs.data.workflows.length > 0 || hasUsage) && (
        <details className="charts-more">
          <summary className="soft">{hasUsage ? t.runs.chart.byBoth : t.runs.chart.byWorkflow}</summary>
          <div className="charts-tables">
            <WorkflowTable workflows={runs.data.workflows} usage={usage?.workflows} />
            {hasUsage && <ModelTable sums={usage.models} />}
          </div>
        </details>
      )}
    </section>
  );
}

function RunChart({ statistics, days }: { statistics: Statistics; days: number }) {
  const navigate = useNavigate({ from: "/runs" });
  const intervals = countRuns(statistics);
  const sum = sumCounts(intervals);
  const most = Math.max(1, ...intervals.map(totalOf));
  const choose = (period: number) =>
    void navigate({ search: (before) => ({ ...before, days: period }), replace: true });
  const head = (
    <>
      <span className="number">{formatNumber(totalOf(sum))}</span>
      <select
        className="chart-period"
        aria-label={t.runs.chart.period}
        value={days}
        onChange={(event) => choose(Number(event.target.value))}
      >
        {PERIODS.map((period) => (
          <option key={period} value={period}>
            {t.runs.chart.days[period]}
          </option>
        ))}
      </select>
    </>
  );
  const bars = intervals.map((one) => (
    <span key={one.at} className="chart-bar" title={`${formatShortTime(one.at)}: ${describeCounts(one)}`}>
      {ENDS.toReversed().map((end) => (
        <i key={end} data-state={END_STATES[end]} style={{ height: `${(one[end] / most) * 100}%` }} />
      ))}
    </span>
  ));
  const table = (
    <TimeTable
      caption={t.runs.chart.table}
      columns={[t.runs.chart.runs, t.runs.chart.failures, t.runs.chart.cancelled]}
      rows={intervals.map((one) => [one.at, [totalOf(one), one.failed, one.cancelled].map(String)])}
    />
  );
  return (
    <ChartPanel
      title={t.runs.title}
      head={head}
      period={statistics}
      most={formatNumber(most)}
      legend={<EndLegend counts={sum} />}
      bars={bars}
      table={table}
    />
  );
}

/** The states whose icons and colours the ends have. */
const END_STATES: Record<keyof Counts, RunStatus> = {
  succeeded: "succeeded",
  other: "queued",
  cancelled: "cancelled",
  failed: "failed",
};

/** How many runs ended how: an icon, a word and the colour of the bars. */
function EndLegend({ counts }: { counts: Counts }) {
  return ENDS.filter((end) => counts[end] > 0).map((end) => (
    <span key={end} className="chart-end" data-state={END_STATES[end]}>
      <Icon name={STATE_ICONS[END_STATES[end]]} />
      {t.runs.chart.ends[end](counts[end])}
    </span>
  ));
}
