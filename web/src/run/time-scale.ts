// The time axis of a run. Times in which the run only waited, or had ended before it was retried, are drawn shorter than
// they were: they would hide what happened.

/** A period in which nothing was performed, in milliseconds since the Unix epoch. */
export type IdlePeriod = { start: number; end: number };

/** A period that is not drawn to scale, with its length on the axis. */
export type Gap = IdlePeriod & { drawnMs: number };

/** All gaps together take less than this part of the time in which something was performed. */
const GAPS_PART = 1 / 4;

/** Converts times into positions on the axis, which are in milliseconds, too. */
export class TimeScale {
  readonly gaps: readonly Gap[];

  /** The axis from `start` to `end` with the idle periods in between, in order. */
  constructor(start: number, end: number, idle: readonly IdlePeriod[]) {
    const idleMs = idle.reduce((sum, period) => sum + period.end - period.start, 0);
    const drawnMs = Math.max(1, ((end - start - idleMs) * GAPS_PART) / (idle.length + 1));
    const isLong = (period: IdlePeriod) => period.end - period.start > drawnMs;
    this.gaps = idle.filter(isLong).map((period) => ({ ...period, drawnMs }));
  }

  /** The position of a time. */
  toAxis(time: number): number {
    let left = 0;
    for (const { start, end, drawnMs } of this.gaps) {
      if (time <= start) break;
      const length = end - start;
      const passed = Math.min(time, end) - start;
      left += passed * (1 - drawnMs / length);
    }
    return time - left;
  }

  /** The time at a position. */
  toTime(position: number): number {
    let left = 0;
    for (const { start, end, drawnMs } of this.gaps) {
      const from = start - left;
      if (position <= from) break;
      const length = end - start;
      const passed = Math.min(position - from, drawnMs);
      left += passed * (length / drawnMs - 1);
    }
    return position + left;
  }

  /** The parts of a period that are drawn to scale. */
  listScaled(period: IdlePeriod): IdlePeriod[] {
    const parts: IdlePeriod[] = [];
    let start = period.start;
    for (const gap of this.gaps) {
      if (gap.end <= start || gap.start >= period.end) continue;
      if (gap.start > start) parts.push({ start, end: gap.start });
      start = gap.end;
    }
    if (start < period.end) parts.push({ start, end: period.end });
    return parts;
  }
}
