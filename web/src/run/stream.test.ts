import { expect, test } from "vitest";
import { RunHistory } from "./history";
import type { RunRecord } from "./record";
import { streamAt } from "./stream";

const PATH = "/draft";

/** A run in which one step answers from event 3 to event 5, during 100 ms. */
function record(seq: number): RunRecord {
  const header = { run: "r", seq, at: 1000 + (seq - 3) * 50, path: PATH, attempt: 1 };
  const events = [
    { event: "run_created", data: { format: "steps", name: "n", inputs: null, user: "u", limits: {} } },
    { event: "run_started", data: { epoch: 1 } },
    { event: "step_started", data: { kind: "generate", target: "m", hash: "h", class: "c" } },
    { event: "progress", data: { name: "other", data: null } },
    { event: "step_finished", data: { output: "0123456789" } },
  ];
  return { ...header, ...events[seq - 1] } as RunRecord;
}

function streamOf(history: RunHistory, seq: number) {
  const state = history.stateAt(seq);
  const [step] = state.steps;
  return step && streamAt(history, state, step);
}

test("an answer that was not seen is cut by the time that had passed, and says so", () => {
  const history = new RunHistory();
  for (let seq = 1; seq <= 5; seq++) history.add(record(seq));
  expect(streamOf(history, 3)).toEqual({ text: "", isApproximate: true });
  expect(streamOf(history, 4)).toEqual({ text: "01234", isApproximate: true });
  expect(streamOf(history, 5)).toBeUndefined();
});

test("an answer that was seen is shown at each event as it was then", () => {
  const history = new RunHistory();
  for (let seq = 1; seq <= 3; seq++) history.add(record(seq));
  expect(streamOf(history, 3)).toBeUndefined();
  history.addDelta({ path: PATH, attempt: 1, offset: 0, text: "é1" }, 1010);
  history.addDelta({ path: PATH, attempt: 1, offset: 2, text: "2" }, 1020);
  expect(streamOf(history, 3)).toEqual({ text: "é12", isApproximate: false });
  history.add(record(4));
  history.addDelta({ path: PATH, attempt: 1, offset: 3, text: "34" }, 1060);
  history.add(record(5));
  expect(streamOf(history, 3)?.text).toBe("é12");
  expect(streamOf(history, 4)?.text).toBe("é1234");
  // A new connection repeats the text so far.
  history.addDelta({ path: PATH, attempt: 1, offset: 0, text: "é1234" }, 1100);
  expect(streamOf(history, 4)?.text).toBe("é1234");
  expect(history.firstTokenAt(PATH, 1)).toBe(1010);
});
