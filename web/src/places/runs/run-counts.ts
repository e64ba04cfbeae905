// The numbers of runs over time, by how they ended.
import type { Schemas } from "../../api/client";
import { isFailure, type RunStatus } from "../../run/record";
import { t } from "../../strings";
import { INTERVALS, startOf } from "./chart-panel";

type Statistics = Pick<Schemas["RunStatisticsSchema"], "since" | "interval_ms" | "counts">;

/** From the bottom of a bar to its top. */
export const ENDS = ["succeeded", "other", "cancelled", "failed"] as const;
export type Counts = { [End in (typeof ENDS)[number]]: number };

export type Interval = Counts & { at: number };

/** All intervals of the period, also those without runs. */
export function countRuns(statistics: Statistics): Interval[] {
  const { since, interval_ms, counts } = statistics;
  const intervals = Array.from({ length: INTERVALS }, (_, at): Interval => {
    return { at: startOf(statistics, at), succeeded: 0, failed: 0, cancelled: 0, other: 0 };
  });
  for (const { at, status, count } of counts) {
    const interval = intervals[Math.round((at - since) / interval_ms)];
    if (interval) interval[endOf(status as RunStatus)] += count;
  }
  return intervals;
}

function endOf(status: RunStatus): keyof Counts {
  if (status === "succeeded" || status === "cancelled") return status;
  return isFailure(status) ? "failed" : "other";
}

export function sumCounts(all: readonly Counts[]): Counts {
  const sum = { succeeded: 0, failed: 0, cancelled: 0, other: 0 };
  for (const one of all) for (const end of ENDS) sum[end] += one[end];
  return sum;
}

export function totalOf(counts: Counts): number {
  return ENDS.reduce((sum, end) => sum + counts[end], 0);
}

/** The counts that are not zero, in words. */
export function describeCounts(counts: Counts): string {
  const named = ENDS.filter((end) => counts[end] > 0).map((end) => t.runs.chart.ends[end](counts[end]));
  return named.length > 0 ? named.join(", ") : t.runs.chart.noRuns;
}
