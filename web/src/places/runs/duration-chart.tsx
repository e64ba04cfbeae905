// How long runs took over time: the median, and the time that 19 of 20 runs did not exceed.
import type { Schemas } from "../../api/client";
import { t } from "../../strings";
import { formatDuration, formatShortTime } from "../../ui/format";
import { ChartPanel, INTERVALS, startOf, TimeTable } from "./chart-panel";

export function DurationChart({ statistics }: { statistics: Schemas["RunStatisticsSchema"] }) {
  const { since, interval_ms, durations } = statistics;
  const most = Math.max(1, ...durations.map((one) => one.p95_ms));
  const percent = (ms: number) => `${(ms / most) * 100}%`;
  const byInterval = new Map(durations.map((one) => [Math.round((one.at - since) / interval_ms), one]));
  const bars = Array.from({ length: INTERVALS }, (_, at) => {
    const one = byInterval.get(at);
    const start = startOf(statistics, at);
    if (!one) return <span key={start} className="chart-bar" />;
    return (
      <span
        key={start}
        className="chart-bar"
        title={`${formatShortTime(start)}: p50 ${formatDuration(one.median_ms)}, p95 ${formatDuration(one.p95_ms)}`}
      >
        <i data-part="p95" style={{ height: percent(one.p95_ms) }} />
        <i data-part="p50" style={{ height: percent(one.median_ms) }} />
      </span>
    );
  });
  const table = (
    <TimeTable
      caption={t.runs.chart.durationTable}
      columns={[t.runs.chart.median, t.runs.chart.slow]}
      rows={durations.map((one) => [one.at, [formatDuration(one.median_ms), formatDuration(one.p95_ms)]])}
    />
  );
  const legend = (["p50", "p95"] as const).map((part) => (
    <span key={part} className="chart-end">
      <i className="chart-swatch" data-part={part} />
      {t.runs.chart.parts[part]}
    </span>
  ));
  return (
    <ChartPanel
      title={t.runs.duration}
      head={null}
      period={statistics}
      most={formatDuration(most)}
      legend={legend}
      bars={bars}
      table={table}
    />
  );
}
