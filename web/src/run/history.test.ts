import { expect, test } from "vitest";
import { RunHistory } from "./history";
import type { RunRecord } from "./record";

function historyOf(events: [event: string, data?: unknown][]): RunHistory {
  const history = new RunHistory();
  events.forEach(([event, data], at) => {
    history.add({
      run: "r",
      seq: at + 1,
      at: (at + 1) * 10,
      path: "/a",
      attempt: 1,
      event,
      data,
    } as unknown as RunRecord);
  });
  return history;
}

const CREATED = ["run_created", { format: "steps", name: "n", inputs: null, user: "u", limits: {} }] as [
  string,
  unknown,
];
const STARTED = ["run_started", { epoch: 1 }] as [string, unknown];
const STEP = ["step_started", { kind: "generate", target: "m", hash: "h", class: "read" }] as [
  string,
  unknown,
];

test("a run that starts again while it is in progress was taken over", () => {
  expect(historyOf([CREATED, STARTED, STEP, STARTED]).listTakeovers()).toEqual([40]);
});

test("a run that continues after a wait or a retry was not, and was idle meanwhile", () => {
  const waited = historyOf([CREATED, STARTED, STEP, ["run_suspended", { status: "waiting" }], STARTED]);
  expect([waited.listTakeovers(), waited.listIdle(5)]).toEqual([[], [{ start: 40, end: 50 }]]);
  const reopened: [string, unknown] = ["run_reopened", { reset: [], continued: [] }];
  const retried = historyOf([CREATED, STARTED, ["run_finished", { status: "failed" }], reopened, STARTED]);
  expect([retried.listTakeovers(), retried.listIdle(5)]).toEqual([[], [{ start: 30, end: 40 }]]);
});
