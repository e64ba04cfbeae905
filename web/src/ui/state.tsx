// The state of a run or a step: an icon, a word and a colour, so that none of them is needed alone.
import type { RunStatus } from "../run/record";
import type { ShownPhase } from "../run/rows";
import { t } from "../strings";
import { Icon, type IconName } from "./icon";

const ICONS: Record<RunStatus | ShownPhase, IconName> = {
  queued: "clock",
  running: "spin",
  interrupted: "warn",
  waiting: "pause",
  uncertain: "help",
  succeeded: "check",
  finished: "check",
  failed: "cross",
  cancelled: "stop",
  aborted: "stop",
  timed_out: "clock",
  budget_exceeded: "dollar",
  quarantined: "warn",
  skipped: "skip",
  reset: "undo",
  retrying: "redo",
  reused: "history",
  tolerated: "cross",
};

export function StatusMark({ status }: { status: RunStatus }) {
  return (
    <span className="state" data-state={status}>
      <Icon name={ICONS[status]} />
      {t.status[status]}
    </span>
  );
}

/** The phase of a step; with `isIconOnly` the word is for screen readers. */
export function PhaseMark({ phase, isIconOnly = false }: { phase: ShownPhase; isIconOnly?: boolean }) {
  return (
    <span className="state" data-state={phase} title={isIconOnly ? t.phase[phase] : undefined}>
      <Icon name={ICONS[phase]} />
      <span className={isIconOnly ? "unseen" : undefined}>{t.phase[phase]}</span>
    </span>
  );
}
