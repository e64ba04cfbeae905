// A run as the page shows it: followed live, at a position that the viewer can move.
import { useEffect, useMemo, useState, useSyncExternalStore } from "react";
import type { RunState } from "../../run/fold";
import { type KnownRun, RunFollower } from "../../run/follow";
import { isFinal } from "../../run/record";
import { buildRows, type Row } from "../../run/rows";

export type RunView = {
  follower: KnownRun;
  /** The state at the position. */
  state: RunState;
  /** The state after the last event: what the run is, wherever the viewer looks. */
  newest: RunState;
  /** The rows of all steps that have happened so far, also after the position. */
  rows: Row[];
  /** The event that is shown; `undefined` follows the run. */
  at: number | undefined;
  seek: (at: number | undefined) => void;
  /** Moves by a number of events. Several movements before the next rendering add up. */
  seekBy: (events: number) => void;
};

const nothing = () => () => undefined;
const zero = () => 0;

/** Follows a run while the component is shown. */
export function useFollower(run: string): RunFollower | undefined {
  const [follower, setFollower] = useState<RunFollower>();
  useEffect(() => {
    const opened = new RunFollower(run);
    setFollower(opened);
    return () => opened.close();
  }, [run]);
  useSyncExternalStore(follower?.subscribe ?? nothing, follower?.getVersion ?? zero);
  return follower?.run === run ? follower : undefined;
}

/** A run and its view, which is undefined until the first event has arrived. */
export function useRunView(
  run: string,
  start: number | undefined,
): { follower: RunFollower | undefined; view: RunView | undefined } {
  const follower = useFollower(run);
  return { follower, view: useView(follower, start) };
}

/** The view of a run, which is undefined until the first event has arrived. */
export function useView(follower: KnownRun | undefined, start: number | undefined): RunView | undefined {
  const [at, setAt] = useState(start);
  const last = follower?.history.length ?? 0;
  const { seek, seekBy } = useMemo(() => {
    const end = () => follower?.history.length ?? 0;
    // The end of a run that goes on moves: it is followed, and not the event that was the last one.
    const within = (wanted: number) => (wanted >= end() ? undefined : Math.max(1, wanted));
    return {
      seek: (wanted: number | undefined) => setAt(wanted === undefined ? undefined : within(wanted)),
      seekBy: (events: number) => setAt((shown) => within(Math.min(shown ?? end(), end()) + events)),
    };
  }, [follower]);
  const shown = at === undefined ? last : Math.min(at, last);
  const state = useMemo(() => follower?.history.shownAt(shown), [follower, shown]);
  const newest = useMemo(() => follower?.history.shownAt(last), [follower, last]);
  const count = newest?.steps.length ?? 0;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the rows depend on the paths only, so on their number.
  const rows = useMemo(() => buildRows(newest?.steps ?? []), [follower, count]);
  if (!follower || !state || !newest || last === 0) return undefined;
  return { follower, state, newest, rows, at, seek, seekBy };
}

/** The present time, which advances while `isMoving`. */
export function useNow(isMoving: boolean): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (!isMoving) return;
    const timer = setInterval(() => setNow(Date.now()), 200);
    return () => clearInterval(timer);
  }, [isMoving]);
  return now;
}

/** The time at the position: the present while a run is followed, and else that of the event that is shown. */
export function timeOf({ state, at }: Pick<RunView, "state" | "at">, now: number): number {
  return at === undefined && !isFinal(state.status) ? now : state.at;
}
