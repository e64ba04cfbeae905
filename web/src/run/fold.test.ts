// Folds the journals that the engine's tests keep, and compares the state after every event with that of the fold in
// Rust. `make journals` writes both.
import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parseJson } from "../api/json";
import type { RunState, StepState } from "./fold";
import { RunHistory } from "./history";
import type { RunRecord } from "./record";

const journals = new URL("../../../tests/journals/v1/", import.meta.url);
const states = new URL("../../../tests/page-states/", import.meta.url);

/** A state as the fixtures write it: fields without a value are left out. */
function toFixture(state: RunState, before: RunState | undefined): unknown {
  const { status, seq, usage, error, failed, finishedAt } = state;
  const stepsBefore = before?.steps.map((step) => JSON.stringify(stepToFixture(step))) ?? [];
  const steps = state.steps.map(stepToFixture).filter((step, at) => JSON.stringify(step) !== stepsBefore[at]);
  return withoutAbsent({
    seq,
    status,
    input_tokens: usage.input_tokens,
    output_tokens: usage.output_tokens,
    micro_usd: usage.micro_usd,
    error: error?.code,
    failed,
    finished_at: finishedAt,
    steps,
  });
}

function stepToFixture(step: StepState): unknown {
  return withoutAbsent({
    path: step.path,
    phase: step.phase,
    kind: step.kind,
    target: step.target,
    attempts: step.attempts,
    started_at: step.startedAt,
    finished_at: step.finishedAt,
    first_seq: step.firstSeq,
    output: step.output,
    error: step.error?.code,
    reason: step.reason,
    warnings: step.warnings,
    question: step.question?.question,
    is_failure_ignored: step.isFailureIgnored,
  });
}

function withoutAbsent(object: object): unknown {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
}

function readLines(file: URL): string[] {
  return readFileSync(file, "utf8").trim().split("\n");
}

for (const name of readdirSync(journals).sort()) {
  test(`the states of ${name} are those of the engine`, () => {
    // The first line describes the journal.
    const records = readLines(new URL(name, journals)).slice(1);
    const history = new RunHistory();
    for (const line of records) history.add(parseJson(line) as unknown as RunRecord);
    const expected = readLines(new URL(name, states)).map((line) => parseJson(line));
    const found: unknown[] = [];
    let before: RunState | undefined;
    for (let seq = 1; seq <= history.length; seq++) {
      const state = history.stateAt(seq);
      found.push(toFixture(state, before));
      before = state;
    }
    expect(found).toEqual(expected);
  });
}
