// The state of a run: the fold of its events. `crates/core/src/state/mod.rs` is the same fold in Rust; both are tested
// with the same journals (`fold.test.ts`). The live view, the history and the scrubber all use it.
import type { Json } from "../api/json";
import type {
  ChildSuspension,
  Question,
  ResponseFacts,
  RunCreated,
  RunRecord,
  RunStatus,
  StepError,
  Usage,
} from "./record";
import { isFinal } from "./record";

export type Phase =
  | "running"
  | "finished"
  | "failed"
  | "skipped"
  | "aborted"
  | "waiting"
  | "uncertain"
  | "reset";

/** One try of an effect, for the waterfall. */
export type Attempt = {
  number: number;
  /** The hash of the request. */
  hash?: string;
  startedAt: number;
  endedAt?: number;
  error?: StepError;
  response?: ResponseFacts;
};

/** The state of one step. Never changed: an event makes a new one. */
export type StepState = {
  readonly path: string;
  readonly phase: Phase;
  readonly kind?: string;
  readonly target?: string;
  readonly output?: Json;
  readonly error?: StepError;
  readonly reason?: string;
  readonly attempts: number;
  readonly startedAt: number;
  readonly finishedAt?: number;
  readonly usage?: Usage;
  readonly warnings: readonly string[];
  readonly question?: Question;
  readonly isFailureIgnored: boolean;
  /** Whether the outcome was taken from the run that this one was forked from. */
  readonly isReused?: boolean;
  readonly firstSeq: number;
  /** Every attempt with its times. Only the page keeps this. */
  readonly tries: readonly Attempt[];
};

/** Where a step is in `steps`. It only grows, so all positions of a run share one. */
export type StepIndex = Map<string, number>;

export type RunState = {
  run: string | undefined;
  created: RunCreated | undefined;
  status: RunStatus;
  createdAt: number;
  /** When it began for the first time. Only the page keeps this. */
  startedAt: number | undefined;
  finishedAt: number | undefined;
  error: StepError | undefined;
  failed: string | undefined;
  usage: Usage;
  seq: number;
  /** Time of the last event. */
  at: number;
  steps: StepState[];
  children: Map<string, ChildSuspension>;
  /** The arrow that each visit of a node of a graph has followed; null leads to the end. Only the page keeps this. */
  edges: Map<string, string | null>;
};

export function createState(): RunState {
  return {
    run: undefined,
    created: undefined,
    status: "queued",
    createdAt: 0,
    startedAt: undefined,
    finishedAt: undefined,
    error: undefined,
    failed: undefined,
    usage: { input_tokens: 0, output_tokens: 0, micro_usd: 0 },
    seq: 0,
    at: 0,
    steps: [],
    children: new Map(),
    edges: new Map(),
  };
}

/** A copy that can be changed without changing the original. */
export function copyState(state: RunState): RunState {
  return {
    ...state,
    steps: state.steps.slice(),
    children: new Map(state.children),
    edges: new Map(state.edges),
  };
}

/** Adds one event to `state`, which it changes. */
export function applyRecord(state: RunState, index: StepIndex, record: RunRecord): void {
  applyToRun(state, index, record);
  if (isStepEvent(record)) applyToStep(state, index, record);
  const endsWait =
    record.event === "answered" || record.event === "resolved" || record.event === "child_resumed";
  if (endsWait && !isFinal(state.status)) state.status = "running";
  state.seq = record.seq;
  state.at = record.at;
  state.run = record.run;
}

function applyToRun(state: RunState, index: StepIndex, record: RunRecord): void {
  switch (record.event) {
    case "run_created":
      state.created = record.data;
      state.createdAt = record.at;
      break;
    case "run_started":
      state.status = "running";
      state.startedAt ??= record.at;
      break;
    case "run_suspended":
      state.status = record.data.status;
      break;
    case "run_finished":
      state.status = record.data.status;
      state.error = record.data.error;
      state.failed = record.data.failed;
      state.finishedAt = record.at;
      abandonChildren(state, index);
      break;
    case "edge_taken":
      state.edges.set(record.path, record.data.to);
      break;
    case "run_reopened":
      reopen(state, index, record.data.reset, record.data.continued ?? []);
      break;
    case "progress":
      if (record.data.name === "warning") addWarnings(state, index, record.path, record.data.data);
      break;
  }
}

type StepRecord = Extract<RunRecord, { event: (typeof STEP_EVENTS)[number] }>;

const STEP_EVENTS = [
  "step_started",
  "step_finished",
  "step_failed",
  "step_skipped",
  "step_aborted",
  "asked",
  "answered",
  "timer_set",
  "step_uncertain",
  "resolved",
  "step_resent",
  "child_suspended",
  "child_resumed",
] as const;

const STEP_EVENT_NAMES: ReadonlySet<string> = new Set(STEP_EVENTS);

function isStepEvent(record: RunRecord): record is StepRecord {
  return STEP_EVENT_NAMES.has(record.event);
}

function applyToStep(state: RunState, index: StepIndex, record: StepRecord): void {
  trackChild(state, record);
  // What a fork reuses was not used again.
  const isOutcome = record.event === "step_finished" || record.event === "step_failed";
  if (isOutcome && record.data.usage && !record.data.reused) {
    state.usage = sumUsage(state.usage, record.data.usage);
  }
  let at = index.get(record.path);
  if (at === undefined) {
    at = state.steps.length;
    index.set(record.path, at);
  }
  let step = state.steps[at] ?? createStep(record);
  if (step.phase === "reset") step = { ...step, startedAt: record.at, firstSeq: record.seq };
  state.steps[at] = { ...step, ...changeOf(step, record) };
}

function createStep(record: StepRecord): StepState {
  return {
    path: record.path,
    phase: "running",
    attempts: 0,
    startedAt: record.at,
    warnings: [],
    isFailureIgnored: false,
    firstSeq: record.seq,
    tries: [],
  };
}

type StepChange = { -readonly [Key in keyof StepState]?: StepState[Key] | undefined };

/** What an event changes about its step. */
function changeOf(step: StepState, record: StepRecord): StepState {
  const change = changeFields(step, record);
  // Absent and undefined are the same to everyone who reads a step.
  return change as StepState;
}

function changeFields(step: StepState, record: StepRecord): StepChange {
  switch (record.event) {
    case "step_started": {
      const { kind, target, hash } = record.data;
      const tries = [...step.tries, { number: record.attempt, hash, startedAt: record.at }];
      return { phase: "running", kind, target, attempts: record.attempt, tries };
    }
    case "step_finished": {
      const { output, usage, reused, response } = record.data;
      const tries = endTry(step, record, { response });
      const isReused = reused === true;
      return {
        phase: "finished",
        output,
        usage: sumUsage(step.usage, usage),
        question: undefined,
        finishedAt: record.at,
        tries,
        isReused,
        warnings: addCutWarning(step.warnings, response),
      };
    }
    case "step_failed": {
      const { error, then, usage, reused } = record.data;
      const isRetried = typeof then === "object";
      const tries = endTry(step, record, { error });
      const phase = isRetried ? "running" : "failed";
      return {
        phase,
        error,
        usage: sumUsage(step.usage, usage),
        isFailureIgnored: then === "continue",
        isReused: reused === true,
        question: undefined,
        finishedAt: record.at,
        tries,
      };
    }
    case "step_skipped":
      return { phase: "skipped", reason: record.data.reason, finishedAt: record.at };
    case "step_aborted":
      return { phase: "aborted", question: undefined, finishedAt: record.at, tries: endTry(step, record) };
    case "asked":
      return { phase: "waiting", question: record.data };
    case "timer_set":
      return { phase: "waiting" };
    case "answered":
      return { phase: "running", question: undefined };
    case "step_uncertain":
      return { phase: "uncertain" };
    case "resolved":
    case "step_resent":
    case "child_resumed":
      return { phase: "running" };
    case "child_suspended":
      return { phase: record.data.status === "uncertain" ? "uncertain" : "waiting" };
  }
}

/** The attempts after one of them has ended. */
function endTry(
  step: StepState,
  record: StepRecord,
  { error, response }: { error?: StepError; response?: ResponseFacts | undefined } = {},
): readonly Attempt[] {
  const at = step.tries.findIndex((one) => one.number === record.attempt);
  const ended = step.tries[at];
  if (!ended) return step.tries;
  return step.tries.with(at, {
    ...ended,
    endedAt: record.at,
    ...(error && { error }),
    ...(response && { response }),
  });
}

/** The warning of a step whose answer was cut off, in the engine's words. */
const CUT_WARNING = "the answer was cut off at its maximum number of tokens";

function addCutWarning(warnings: readonly string[], response: ResponseFacts | undefined): readonly string[] {
  if (response?.finish_reason !== "length" || warnings.includes(CUT_WARNING)) return warnings;
  return [...warnings, CUT_WARNING];
}

/** The sum of the uses of model calls. Its cost is known only if both costs are. */
export function sumUsage(before: Usage, used: Usage): Usage;
export function sumUsage(before: Usage | undefined, used: Usage | undefined): Usage | undefined;
export function sumUsage(before: Usage | undefined, used: Usage | undefined): Usage | undefined {
  if (!before || !used) return before ?? used;
  const isKnown = before.micro_usd !== undefined && used.micro_usd !== undefined;
  return {
    input_tokens: before.input_tokens + used.input_tokens,
    output_tokens: before.output_tokens + used.output_tokens,
    micro_usd: isKnown ? (before.micro_usd ?? 0) + (used.micro_usd ?? 0) : undefined,
  };
}

function addWarnings(state: RunState, index: StepIndex, path: string, data: Json): void {
  const at = index.get(path);
  const step = at === undefined ? undefined : state.steps[at];
  const messages = data && typeof data === "object" && "messages" in data ? data.messages : [];
  if (at === undefined || !step || !Array.isArray(messages)) return;
  const texts = messages.filter((message) => typeof message === "string");
  state.steps[at] = { ...step, warnings: [...new Set([...step.warnings, ...texts])] };
}

function trackChild(state: RunState, record: StepRecord): void {
  switch (record.event) {
    case "child_suspended":
      state.children.set(record.path, record.data);
      break;
    case "child_resumed":
    case "step_finished":
    case "step_failed":
    case "step_aborted":
      state.children.delete(record.path);
      break;
  }
}

/** The end of a run cancels its child runs, so the steps that waited for them continue. */
function abandonChildren(state: RunState, index: StepIndex): void {
  for (const path of state.children.keys()) changeStep(state, index, path, { phase: "running" });
  state.children.clear();
}

function reopen(state: RunState, index: StepIndex, reset: string[], continued: string[]): void {
  state.finishedAt = undefined;
  state.error = undefined;
  state.failed = undefined;
  state.status = "running";
  for (const path of reset) {
    changeStep(state, index, path, FORGOTTEN);
    state.edges.delete(path);
  }
  for (const path of continued) changeStep(state, index, path, { phase: "running", finishedAt: undefined });
}

/** The result of a step no longer counts; the number of its attempts does. */
const FORGOTTEN: StepChange = {
  phase: "reset",
  output: undefined,
  error: undefined,
  reason: undefined,
  finishedAt: undefined,
  usage: undefined,
  question: undefined,
  isFailureIgnored: false,
};

function changeStep(state: RunState, index: StepIndex, path: string, change: StepChange): void {
  const at = index.get(path);
  const step = at === undefined ? undefined : state.steps[at];
  if (at !== undefined && step) state.steps[at] = { ...step, ...change } as StepState;
}
