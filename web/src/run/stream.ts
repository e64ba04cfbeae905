// The answer of a model as it was at a position of the run. Pieces of answers are not recorded: those that this page has
// seen are exact, others follow from the whole answer and the time that had passed.
import type { Json } from "../api/json";
import type { RunState, StepState } from "./fold";
import { cutText, type RunHistory } from "./history";

export type StreamedText = {
  text: string;
  /** Whether it is the part of the whole answer that fits the time that had passed. */
  isApproximate: boolean;
};

/** What a step had answered that runs at the position of `state`, or that ended early; undefined if nothing is known about it. */
export function streamAt(history: RunHistory, state: RunState, step: StepState): StreamedText | undefined {
  const isCut = step.phase === "aborted" || step.phase === "failed";
  if (step.phase !== "running" && !isCut) return undefined;
  const seen = history.textAt(step.path, step.attempts, state.seq);
  if (seen !== undefined) return { text: seen, isApproximate: false };
  if (isCut) return undefined;
  const whole = wholeAnswer(history.newestStep(step.path), step.attempts);
  if (!whole) return undefined;
  const share = (state.at - whole.startedAt) / Math.max(1, whole.endedAt - whole.startedAt);
  const length = Array.from(whole.text).length;
  const characters = Math.round(length * Math.max(0, Math.min(1, share)));
  return { text: cutText(whole.text, characters), isApproximate: true };
}

/** The text with which an attempt of a model call ended, and its time. */
function wholeAnswer(step: StepState | undefined, attempt: number) {
  if (step?.phase !== "finished" || step.kind !== "generate" || step.attempts !== attempt) return undefined;
  const last = step.tries.find((one) => one.number === attempt);
  const text = textOf(step.output);
  if (text === undefined || last?.endedAt === undefined) return undefined;
  return { text, startedAt: last.startedAt, endedAt: last.endedAt };
}

/** Answers are texts, or objects with a text and calls of tools. */
function textOf(output: Json | undefined): string | undefined {
  if (typeof output === "string") return output;
  if (typeof output !== "object" || output === null || !("text" in output)) return undefined;
  return typeof output.text === "string" ? output.text : undefined;
}
