// Runs over time, from a route that aggregates in the database.
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { api, read, type Schemas } from "../../api/client";
import { t } from "../../strings";
import { formatDuration, formatNumber, formatShortTime } from "../../ui/format";

import { DurationChart } from "./duration-chart";
import { useWorkflowNames, WorkflowLink } from "./workflow-link";

type Statistics = Schemas["RunStatisticsSchema"];

const REFRESH_MS = 15_000;
const INTERVALS = 24;
const PERIODS = [1, 7, 30];
const MAX_WORKFLOWS = 5;

type Interval = { at: number; succeeded: number; failed: number; other: number };

type ChartsProps = {
  days: number;
  /** The filters of the table, as far as the statistics have them. */
  status: string | undefined;
  workflow: string | undefined;
  /** Whether the table has a filter that the numbers do not have. */
  isWider: boolean;
};

export function Charts({ days, status, workflow, isWider }: ChartsProps) {
  const navigate = useNavigate({ from: "/runs" });
  const { data } = useQuery({
    queryKey: ["runs", "statistics", days],
    queryFn: () => read(api.GET("/api/v1/statistics", { params: { query: { days } } })),
    refetchInterval: REFRESH_MS,
  });
  if (!data) return null;
  const intervals = toIntervals(data, status);
  const shown = data.workflows.filter((one) => workflow === undefined || one.workflow === workflow);
  const total = intervals.reduce((sum, one) => sum + one.succeeded + one.failed + one.other, 0);
  const failed = intervals.reduce((sum, one) => sum + one.failed, 0);
  return (
    <section className="charts">
      <div className="panel chart">
        <header>
          <h2>{t.runs.title}</h2>
          <span className="number">{formatNumber(total)}</span>
          {isWider && <span className="soft">{t.runs.chart.allRuns}</span>}
          {failed > 0 && (
            <span className="number chart-failures">
              {formatNumber(failed)} {t.status.failed.toLowerCase()}
            </span>
          )}
          <select
            className="chart-period"
            aria-label={t.runs.chart.period}
            value={days}
            onChange={(event) =>
              void navigate({
                search: (before) => ({ ...before, days: Number(event.target.value) }),
                replace: true,
              })
            }
          >
            {PERIODS.map((period) => (
              <option key={period} value={period}>
                {t.runs.chart.days[period]}
              </option>
            ))}
          </select>
        </header>
        <Bars intervals={intervals} />
      </div>
      <DurationChart statistics={data} />
      <div className="panel chart">
        <header>
          <h2>{t.runs.chart.byWorkflow}</h2>
        </header>
        <WorkflowTable workflows={shown.slice(0, MAX_WORKFLOWS)} />
      </div>
    </section>
  );
}

/** All intervals of the period, also those without runs; of one status, if one is chosen. */
function toIntervals({ since, interval_ms, counts }: Statistics, chosen: string | undefined): Interval[] {
  const intervals = Array.from({ length: INTERVALS }, (_, at): Interval => {
    return { at: since + at * interval_ms, succeeded: 0, failed: 0, other: 0 };
  });
  for (const { at, status, count } of counts) {
    const interval = intervals[Math.round((at - since) / interval_ms)];
    if (!interval || (chosen !== undefined && status !== chosen)) continue;
    if (status === "succeeded") interval.succeeded += count;
    else if (["failed", "timed_out", "budget_exceeded", "quarantined"].includes(status))
      interval.failed += count;
    else interval.other += count;
  }
  return intervals;
}

function Bars({ intervals }: { intervals: Interval[] }) {
  const most = Math.max(1, ...intervals.map((one) => one.succeeded + one.failed + one.other));
  const percent = (count: number) => `${(count / most) * 100}%`;
  return (
    <>
      <div className="chart-bars" aria-hidden="true">
        {intervals.map((one) => (
          <span
            key={one.at}
            className="chart-bar"
            title={`${formatShortTime(one.at)}: ${one.succeeded + one.failed + one.other}`}
          >
            <i data-state="failed" style={{ height: percent(one.failed) }} />
            <i data-state="queued" style={{ height: percent(one.other) }} />
            <i data-state="succeeded" style={{ height: percent(one.succeeded) }} />
          </span>
        ))}
      </div>
      <div className="chart-axis faint number" aria-hidden="true">
        <span>{formatShortTime(intervals[0]?.at ?? 0)}</span>
        <span>{formatShortTime(intervals.at(-1)?.at ?? 0)}</span>
      </div>
      <table className="unseen">
        <caption>{t.runs.chart.table}</caption>
        <thead>
          <tr>
            <th scope="col">{t.runs.chart.hour}</th>
            <th scope="col">{t.runs.chart.runs}</th>
            <th scope="col">{t.runs.chart.failures}</th>
          </tr>
        </thead>
        <tbody>
          {intervals.map((one) => (
            <tr key={one.at}>
              <td>{formatShortTime(one.at)}</td>
              <td>{one.succeeded + one.failed + one.other}</td>
              <td>{one.failed}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

function WorkflowTable({ workflows }: { workflows: Statistics["workflows"] }) {
  const names = useWorkflowNames();
  if (workflows.length === 0) return <p className="soft chart-none">{t.runs.noneEnded}</p>;
  return (
    <table className="table chart-table number">
      <thead>
        <tr>
          <th scope="col">{t.runs.workflow}</th>
          <th scope="col">{t.runs.chart.runs}</th>
          <th scope="col">{t.runs.chart.failures}</th>
          <th scope="col" title={t.runs.chart.median}>
            p50
          </th>
          <th scope="col" title={t.runs.chart.slow}>
            p95
          </th>
        </tr>
      </thead>
      <tbody>
        {workflows.map((one) => (
          <tr key={one.workflow}>
            <td className="cut" title={one.workflow}>
              <WorkflowLink id={one.workflow} names={names} />
            </td>
            <td>{formatNumber(one.count)}</td>
            <td>{formatNumber(one.failures)}</td>
            <td>{formatDuration(one.median_ms)}</td>
            <td>{formatDuration(one.p95_ms)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
