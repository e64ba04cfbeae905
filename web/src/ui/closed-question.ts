// Why a question that was shown can no longer be answered.
import type { RunState } from "../run/fold";
import { isFinal } from "../run/record";
import { t } from "../strings";

/** How long a question must have been open on the page for someone to have seen it. */
export const SEEN_MS = 1000;

/**
 * Whether someone can have seen a question that was on the page from `since` to `until`. Earlier events of a run arrive one
 * after another, so questions that were answered long ago are open for a moment.
 */
export function wasSeen(since: number, until: number): boolean {
  return until - since >= SEEN_MS;
}

/** The reason why the question of a step is not open any more. */
export function explainClosed(state: RunState, path: string): string {
  const phase = state.steps.find((step) => step.path === path)?.phase;
  if (phase === "failed") return t.answer.expired;
  return isFinal(state.status) && phase !== "finished" ? t.answer.ended : t.answer.elsewhere;
}
