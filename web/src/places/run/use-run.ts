// A run as the page shows it: followed live, at a position that the viewer can move.
import { useCallback, useEffect, useMemo, useState, useSyncExternalStore } from "react";
import type { RunState } from "../../run/fold";
import { RunFollower } from "../../run/follow";
import { isFinal } from "../../run/record";
import { buildRows, type Row } from "../../run/rows";

export type RunView = {
  follower: RunFollower;
  /** The state at the position. */
  state: RunState;
  /** The state after the last event: what the run is, wherever the viewer looks. */
  newest: RunState;
  /** The rows of all steps that have happened so far, also after the position. */
  rows: Row[];
  /** The event that is shown; `undefined` follows the run. */
  at: number | undefined;
  seek: (at: number | undefined) => void;
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
  const [at, setAt] = useState(start);
  const last = follower?.history.length ?? 0;
  const seek = useCallback(
    (wanted: number | undefined) => {
      const end = follower?.history.length ?? 0;
      setAt(wanted === undefined || wanted >= end ? undefined : Math.max(1, wanted));
    },
    [follower],
  );
  const shown = at === undefined ? last : Math.min(at, last);
  const state = useMemo(() => follower?.history.shownAt(shown), [follower, shown]);
  const newest = useMemo(() => follower?.history.shownAt(last), [follower, last]);
  const count = newest?.steps.length ?? 0;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the rows depend on the paths only, so on their number.
  const rows = useMemo(() => buildRows(newest?.steps ?? []), [follower, count]);
  const view =
    follower && state && newest && last > 0 ? { follower, state, newest, rows, at, seek } : undefined;
  return { follower, view };
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
