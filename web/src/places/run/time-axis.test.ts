import { expect, test } from "vitest";
import { TimeScale } from "../../run/time-scale";
import { formatTick, listTicks } from "./time-axis";

const ORIGIN = 1_000_000_000;

/** The ticks of a period that begins and ends so many milliseconds after the start of the run. */
function ticksOf(start: number, end: number, idle: [number, number][] = []) {
  const periods = idle.map(([from, to]) => ({ start: ORIGIN + from, end: ORIGIN + to }));
  const scale = new TimeScale(ORIGIN, ORIGIN + end, periods);
  return listTicks({ start: ORIGIN + start, end: ORIGIN + end, scale }, ORIGIN);
}

test("ticks are round times, at most four of them", () => {
  const label = (start: number, end: number) => ticksOf(start, end).map(({ time }) => formatTick(time));
  expect(label(0, 2097)).toEqual(["0", "1 s"]);
  expect(label(0, 1900)).toEqual(["0", "500 ms", "1 s", "1.5 s"]);
  expect(label(730, 990)).toEqual(["800 ms", "900 ms"]);
  expect(label(0, 150_000)).toEqual(["0", "1 min", "2 min"]);
});

test("a tick that would be cut off is left out", () => {
  expect(ticksOf(0, 1000).map(({ place }) => place)).toEqual([0, 0.5]);
});

test("nothing is labelled where the axis is not to scale", () => {
  const ticks = ticksOf(0, 3_602_000, [[1000, 3_600_500]]);
  expect(ticks.map(({ time }) => time)).toEqual([0, 3_601_000]);
});
