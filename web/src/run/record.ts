// The records of a run as the event stream sends them. The authority is `crates/core/src/event/mod.rs`.
import type { Json } from "../api/json";

/** Tokens and cost of model calls; without `micro_usd` the price is unknown. */
/** Facts about a response besides the output. */
export type ResponseFacts = {
  queued_ms?: number;
  first_token_ms?: number;
  finish_reason?: "length" | "other";
};

export type Usage = { input_tokens: number; output_tokens: number; micro_usd?: number | undefined };

export type StepError = { code: string; message: string };

export type Question = { question: string; schema?: Json; subject?: string; expires_at?: number };

export type RunStatus =
  | "queued"
  | "running"
  | "interrupted"
  | "waiting"
  | "uncertain"
  | "succeeded"
  | "failed"
  | "cancelled"
  | "timed_out"
  | "budget_exceeded"
  | "quarantined";

export type ChildSuspension = {
  run: string;
  status: RunStatus;
  open?: { path: string; question?: Question; target?: string }[];
};

export type RunCreated = {
  format: string;
  name: string;
  workflow?: string;
  inputs: Json;
  user: string;
  limits: { [limit: string]: number | null };
  parent?: { run: string; path: string };
  /** The run that this one was forked from. */
  fork?: { run: string; at?: string };
  /** What started this run, unless a step of another run did. */
  trigger?: { kind: string; id?: string };
};

type Header = { run: string; seq: number; at: number; path: string; attempt: number };

/** What can happen, by the name of the event. */
type EventData = {
  run_created: RunCreated;
  run_started: { epoch: number };
  step_started: { kind: string; target: string; hash: string; class: string };
  step_finished: { output?: Json; usage?: Usage; reused?: boolean; response?: ResponseFacts };
  step_failed: {
    error: StepError;
    then: "fail" | "continue" | { retry: number };
    usage?: Usage;
    reused?: boolean;
  };
  evaluated: { value?: Json };
  progress: { name: string; data: Json };
  step_skipped: { reason: string };
  step_aborted: { reason: string };
  edge_taken: { to: string | null };
  asked: Question;
  answered: { value: Json; by: string };
  timer_set: { until: number };
  step_uncertain: undefined;
  resolved: { how: Json; by: string };
  step_resent: undefined;
  child_suspended: ChildSuspension;
  child_resumed: { run: string };
  cancel_requested: { by: string };
  run_suspended: { status: RunStatus };
  run_finished: { status: RunStatus; error?: StepError; failed?: string };
  run_reopened: { by: string; reset: string[]; continued?: string[] };
};

export type EventName = keyof EventData;

/** An event with its header. */
export type RunRecord = { [Name in EventName]: Header & { event: Name; data: EventData[Name] } }[EventName];

/** A piece of a model's answer while it arrives. `offset` counts the characters before it. */
export type Delta = { path: string; attempt: number; offset: number; text: string };

const FINAL: readonly RunStatus[] = ["succeeded", "failed", "cancelled", "timed_out", "budget_exceeded"];

/** Whether the run ended for another reason than success or a cancellation. */
export function isFailure(status: RunStatus): boolean {
  return isFinal(status) && status !== "succeeded" && status !== "cancelled";
}

/** Whether the run has ended. */
export function isFinal(status: RunStatus): boolean {
  return FINAL.includes(status);
}
