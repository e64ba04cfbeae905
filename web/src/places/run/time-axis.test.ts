import { expect, test } from "vitest";
import { formatTick, listTicks } from "./time-axis";

test("ticks are round times, at most four of them", () => {
  const label = (start: number, end: number) => listTicks(start, end).map(({ time }) => formatTick(time));
  expect(label(0, 2097)).toEqual(["0", "1 s"]);
  expect(label(0, 1900)).toEqual(["0", "500 ms", "1 s", "1.5 s"]);
  expect(label(730, 990)).toEqual(["800 ms", "900 ms"]);
  expect(label(0, 150_000)).toEqual(["0", "1 min 0 s", "2 min 0 s"]);
});

test("a tick that would be cut off is left out", () => {
  expect(listTicks(0, 1000).map(({ place }) => place)).toEqual([0, 0.5]);
});

test("nothing is labelled where the axis is not to scale", () => {
  const places = (last: number) => listTicks(0, 1900, last).map(({ time }) => time);
  expect(places(0.85)).toEqual([0, 500, 1000]);
  expect(places(0.3)).toEqual([0]);
});
