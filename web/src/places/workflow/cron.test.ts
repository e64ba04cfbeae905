import { expect, test } from "vitest";
import { describeCron, findCronProblem, toCron, toWhen } from "./cron";

test("expressions are said in words", () => {
  const words = {
    "* * * * *": "Every minute",
    "*/15 * * * *": "Every 15 minutes",
    "30 * * * *": "Every hour at minute 30",
    "0 6 * * *": "At 6:00 every day",
    "0 6 * * 1-5": "At 6:00 from Monday to Friday",
    "0 */2 * * 6": "Every 2 hours, at minute 00 on Saturday",
    "5 8,20 * * 0": "At 8:05 and 20:05 on Sunday",
    "0 0 1 * *": "At 0:00 on day 1 of the month",
    "0 9 * 1,7 1": "At 9:00 on Monday in January and July",
  };
  for (const [cron, expected] of Object.entries(words)) expect(describeCron(cron)).toBe(expected);
  expect(describeCron("0 0 L * *")).toBeUndefined();
});

test("what is wrong is said in plain words, with the field", () => {
  expect(findCronProblem("soon")).toMatch(/five fields/);
  expect(findCronProblem("")).toMatch(/This one has 0/);
  expect(findCronProblem("61 * * * *")).toBe(
    "“61” is not valid for the minute, which is a number from 0 to 59, or * for every.",
  );
  expect(findCronProblem("0 25 * * *")).toMatch(/hour/);
  expect(findCronProblem("0 6 * * tomorrow")).toMatch(/day of the week/);
  for (const cron of [
    "*/5 * * * * *",
    "0 6 * * MON-FRI",
    "0 0 L * *",
    "0 6 * * 5#2",
    "@daily",
    "0 0 1,15 * 7",
  ]) {
    expect(findCronProblem(cron)).toBeUndefined();
  }
});

test("what was chosen is recognised again", () => {
  for (const cron of [
    "0 * * * *",
    "30 6 * * *",
    "5 18 * * 1-5",
    "0 9 * * 3",
    "15 7 1 * *",
    "*/5 * * * *",
    "0 6 1 * 1",
  ]) {
    expect(toCron(toWhen(cron))).toBe(cron);
  }
  expect(toWhen("0 9 * * 3")).toMatchObject({ choice: "weekly", day: 3, time: "09:00" });
  expect(toWhen("99 9 * * 3").choice).toBe("own");
});
