// All events of a run that have arrived, and the state after any of them. States in between are kept, so that moving to
// an event folds at most INTERVAL events.
import { closeSteps } from "./closed";
import { applyRecord, copyState, createState, type RunState, type StepIndex, type StepState } from "./fold";
import type { Delta, RunRecord } from "./record";
import type { IdlePeriod } from "./time-scale";

const INTERVAL = 512;

export class RunHistory {
  readonly records: RunRecord[] = [];
  private readonly kept: RunState[] = [createState()];
  private readonly index: StepIndex = new Map();
  private readonly last: RunState = createState();
  private readonly texts = new Map<string, LiveText>();
  private readonly failures: number[] = [];
  private readonly idle: IdlePeriod[] = [];
  private readonly takeovers: number[] = [];

  /** Adds the next event. A repeated one is ignored; false if an event is missing before it. */
  add(record: RunRecord): boolean {
    if (record.seq <= this.last.seq) return true;
    if (record.seq !== this.last.seq + 1) return false;
    const before = this.records.at(-1);
    // The run waited, or had ended and was retried.
    if (before?.event === "run_suspended" || before?.event === "run_finished") {
      this.idle.push({ start: before.at, end: record.at });
    }
    // Another process continues a run that was in progress: the one before it has died, or lost the database.
    const isBegun = before?.event !== "run_created" && before?.event !== "run_reopened";
    if (record.event === "run_started" && this.last.status === "running" && isBegun)
      this.takeovers.push(record.at);
    this.records.push(record);
    applyRecord(this.last, this.index, record);
    if (record.event === "step_failed" || (record.event === "run_finished" && record.data.error)) {
      this.failures.push(record.seq);
    }
    if (record.seq % INTERVAL === 0) this.kept.push(copyState(this.last));
    return true;
  }

  /** Adds a piece of a model's answer, which arrived at `now`. A new subscriber gets the text so far again. */
  addDelta(delta: Delta, now: number): void {
    const key = textKey(delta.path, delta.attempt);
    const known = this.texts.get(key) ?? { text: "", characters: 0, firstAt: now, marks: [] };
    if (delta.offset > known.characters) return;
    const isNext = delta.offset === known.characters;
    const start = isNext ? known.text : cutText(known.text, delta.offset);
    const characters = delta.offset + countCharacters(delta.text);
    // A mark holds how much was there while its event was the last one.
    const marks = isNext ? known.marks : known.marks.filter((mark) => mark.characters <= characters);
    if (marks.at(-1)?.seq === this.last.seq) marks.pop();
    marks.push({ seq: this.last.seq, characters });
    this.texts.set(key, { ...known, text: start + delta.text, characters, marks });
  }

  /** Number of events. */
  get length(): number {
    return this.last.seq;
  }

  /** All events that have arrived, in order. */
  listRecords(): readonly RunRecord[] {
    return this.records;
  }

  /** What a model had answered when `seq` was the last event; undefined if that was not seen. */
  textAt(path: string, attempt: number, seq: number): string | undefined {
    const known = this.texts.get(textKey(path, attempt));
    const mark = known?.marks.findLast((one) => one.seq <= seq);
    return known && mark && cutText(known.text, mark.characters);
  }

  /** When the first piece of an answer arrived here. */
  firstTokenAt(path: string, attempt: number): number | undefined {
    return this.texts.get(textKey(path, attempt))?.firstAt;
  }

  /** A step after the last event. */
  newestStep(path: string): StepState | undefined {
    const at = this.index.get(path);
    return at === undefined ? undefined : this.last.steps[at];
  }

  /** The state after event `seq`. It is the caller's own. */
  stateAt(seq: number): RunState {
    if (seq >= this.last.seq) return copyState(this.last);
    const wanted = Math.max(0, seq);
    const state = copyState(this.kept[Math.floor(wanted / INTERVAL)] ?? createState());
    for (let next = state.seq; next < wanted; next++) {
      const record = this.records[next];
      if (record) applyRecord(state, this.index, record);
    }
    return state;
  }

  /** The state after event `seq` as people see it: a run that has ended has no open steps. */
  shownAt(seq: number): RunState {
    return closeSteps(this.stateAt(seq));
  }

  /** The first failure after `seq`, or the first of all. */
  nextFailure(seq: number): number | undefined {
    return this.failures.find((at) => at > seq) ?? this.failures[0];
  }

  /** The positions of all failures. */
  get failurePositions(): readonly number[] {
    return this.failures;
  }

  /** The times at which another process took the run over. */
  listTakeovers(): readonly number[] {
    return this.takeovers;
  }

  /** The times until the event `seq` in which nothing was performed, in order. */
  listIdle(seq: number): IdlePeriod[] {
    const until = this.records[seq - 1]?.at ?? 0;
    return this.idle.filter((period) => period.end <= until);
  }

  /** The last event at or before a time. */
  seqAt(time: number): number {
    let low = 0;
    let high = this.records.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const record = this.records[middle];
      if (record && record.at <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The position of the last event of a step. */
  lastSeqOf(path: string): number | undefined {
    return this.records.findLast((record) => record.path === path)?.seq;
  }
}

/** Text as it arrives, with its number of code points, by which the server counts. */
type LiveText = {
  text: string;
  characters: number;
  firstAt: number;
  /** How much of it was there at which event, in order. */
  marks: { seq: number; characters: number }[];
};

/** The first code points of a text. */
export function cutText(text: string, characters: number): string {
  if (text.length <= characters) return text;
  return Array.from(text).slice(0, characters).join("");
}

function countCharacters(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

function textKey(path: string, attempt: number): string {
  return `${attempt} ${path}`;
}
