// How long runs took over time: the median, and the time that 19 of 20 runs did not exceed.
import type { Schemas } from "../../api/client";
import { t } from "../../strings";
import { formatDuration, formatShortTime } from "../../ui/format";

type Statistics = Schemas["RunStatisticsSchema"];

const INTERVALS = 24;

export function DurationChart({ statistics }: { statistics: Statistics }) {
  const { since, interval_ms, durations } = statistics;
  if (durations.length === 0) return null;
  const most = Math.max(1, ...durations.map((one) => one.p95_ms));
  const percent = (ms: number) => `${(ms / most) * 100}%`;
  const byInterval = new Map(durations.map((one) => [Math.round((one.at - since) / interval_ms), one]));
  return (
    <div className="panel chart">
      <header>
        <h2>{t.runs.duration}</h2>
        <span className="soft">{t.runs.chart.durations}</span>
      </header>
      <div className="chart-bars chart-durations" aria-hidden="true">
        {Array.from({ length: INTERVALS }, (_, at) => {
          const one = byInterval.get(at);
          const start = since + at * interval_ms;
          return (
            <span
              key={start}
              className="chart-bar"
              title={one && `${formatShortTime(start)}: ${describe(one.median_ms, one.p95_ms)}`}
            >
              {one && (
                <>
                  <i data-part="p95" style={{ height: percent(one.p95_ms) }} />
                  <i data-part="p50" style={{ height: percent(one.median_ms) }} />
                </>
              )}
            </span>
          );
        })}
      </div>
      <div className="chart-axis faint number" aria-hidden="true">
        <span>{formatShortTime(since)}</span>
        <span>{formatShortTime(since + (INTERVALS - 1) * interval_ms)}</span>
      </div>
      <table className="unseen">
        <caption>{t.runs.chart.durationTable}</caption>
        <thead>
          <tr>
            <th scope="col">{t.runs.chart.hour}</th>
            <th scope="col">{t.runs.chart.median}</th>
            <th scope="col">{t.runs.chart.slow}</th>
          </tr>
        </thead>
        <tbody>
          {durations.map((one) => (
            <tr key={one.at}>
              <td>{formatShortTime(one.at)}</td>
              <td>{formatDuration(one.median_ms)}</td>
              <td>{formatDuration(one.p95_ms)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function describe(medianMs: number, slowMs: number): string {
  return `p50 ${formatDuration(medianMs)}, p95 ${formatDuration(slowMs)}`;
}
