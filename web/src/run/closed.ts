// A run that has ended has no open steps. No event says so of the steps that its end left open, so the page closes them when it
// shows them, as the API does (`crates/app/src/runs/details.rs`). An effect whose outcome is uncertain stays uncertain.
import type { RunState, StepState } from "./fold";
import { isFinal } from "./record";

/** Closes the open steps of a state if its run has ended. Changes the state, and returns it. */
export function closeSteps(state: RunState): RunState {
  if (!isFinal(state.status)) return state;
  state.steps.forEach((step, at) => {
    if (step.phase === "running" || step.phase === "waiting") state.steps[at] = abort(step, state);
  });
  return state;
}

function abort(step: StepState, { finishedAt, at }: RunState): StepState {
  const endedAt = finishedAt ?? at;
  const tries = step.tries.map((one) => ({ ...one, endedAt: one.endedAt ?? endedAt }));
  const { question: _, ...rest } = step;
  return { ...rest, phase: "aborted", finishedAt: endedAt, tries };
}
