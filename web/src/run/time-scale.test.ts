import { expect, test } from "vitest";
import { TimeScale } from "./time-scale";

// Something is performed for 1,000 ms before and 600 ms after an hour of waiting.
const HOUR = 3_600_000;
const scale = new TimeScale(0, HOUR + 1600, [{ start: 1000, end: HOUR + 1000 }]);

test("a long wait is drawn short, and everything else to scale", () => {
  const positions = [0, 500, 1000, HOUR / 2 + 1000, HOUR + 1000, HOUR + 1600].map((time) =>
    scale.toAxis(time),
  );
  expect(positions).toEqual([0, 500, 1000, 1100, 1200, 1800]);
  expect(positions.map((position) => Math.round(scale.toTime(position)))).toEqual([
    0,
    500,
    1000,
    HOUR / 2 + 1000,
    HOUR + 1000,
    HOUR + 1600,
  ]);
});

test("a short wait is drawn to scale", () => {
  expect(new TimeScale(0, 1000, [{ start: 500, end: 550 }]).gaps).toEqual([]);
});

test("many waits take less than a quarter of the rest", () => {
  const idle = Array.from({ length: 100 }, (_, at) => ({ start: at * HOUR + 10, end: (at + 1) * HOUR }));
  const many = new TimeScale(0, 100 * HOUR, idle);
  expect(many.gaps.length).toBe(100);
  expect(many.toAxis(100 * HOUR)).toBeLessThan(1100 + 250);
});

test("the parts that are drawn to scale are those between the waits", () => {
  expect(scale.listScaled({ start: 200, end: HOUR + 1500 })).toEqual([
    { start: 200, end: 1000 },
    { start: HOUR + 1000, end: HOUR + 1500 },
  ]);
  expect(scale.listScaled({ start: 2000, end: 3000 })).toEqual([]);
});
