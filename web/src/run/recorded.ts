// A run that is not stored by itself: its events are in the output of a step of another run, as those of a dry run are.
import type { Json } from "../api/json";
import type { RunState } from "./fold";
import type { KnownRun } from "./follow";
import { RunHistory } from "./history";
import type { RunRecord } from "./record";

/** The function that performs a dry run. */
const DRY_RUN_TARGET = "author::rehearse";

/** The events of the last dry run that a planner has performed; undefined if its record has none. */
export function findDryRunEvents(state: RunState): readonly RunRecord[] | undefined {
  const step = state.steps.findLast(({ target, phase }) => target === DRY_RUN_TARGET && phase === "finished");
  const output = step?.output as { events?: Json } | null | undefined;
  return Array.isArray(output?.events) ? (output.events as unknown as RunRecord[]) : undefined;
}

/** A run of which nothing further arrives. */
export function toKnownRun(events: readonly RunRecord[]): KnownRun {
  const history = new RunHistory();
  for (const event of events) history.add(event);
  return { run: events[0]?.run ?? "", history, openedAt: 0, connection: "ended", refresh: () => undefined };
}
