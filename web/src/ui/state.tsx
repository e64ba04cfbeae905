// The state of a run or a step: an icon, a word and a colour, so that none of them is needed alone.
import type { RunStatus } from "../run/record";
import type { ShownPhase } from "../run/rows";
import { t } from "../strings";
import { Icon, type IconName } from "./icon";

/** The icon of each state; its colour is in the styles. */
export const STATE_ICONS: Record<RunStatus | ShownPhase, IconName> = {
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
      <Icon name={STATE_ICONS[status]} />
      {t.status[status]}
    </span>
  );
}

/** The phase of a step; with `isIconOnly` the word is for screen readers. */
export function PhaseMark({ phase, isIconOnly = false }: { phase: ShownPhase; isIconOnly?: boolean }) {
  return (
    <span className="state" data-state={phase} title={isIconOnly ? t.phase[phase] : undefined}>
      <Icon name={STATE_ICONS[phase]} />
      <span className={isIconOnly ? "unseen" : undefined}>{t.phase[phase]}</span>
    </span>
  );
}

/** Problems of a part or a step: how serious the worst of them is, and how many there are. */
export type Mark = { severity: "error" | "warning"; count: number };

/** Problems as an icon with their number. */
export function ProblemMark({ mark }: { mark: Mark | undefined }) {
  if (!mark) return null;
  const text = t.home.problems(mark.count);
  return (
    <span className="state number" data-state={mark.severity === "error" ? "failed" : "waiting"} title={text}>
      <Icon name="warn" />
      <span aria-hidden="true">{mark.count}</span>
      <span className="unseen">{text}</span>
    </span>
  );
}

/** The warnings of a step; nothing if it has none. The number is for screen readers and the pointer. */
export function WarningMark({ count }: { count: number }) {
  if (count === 0) return null;
  return (
    <span className="state" data-state="waiting" title={t.run.warningCount(count)}>
      <Icon name="warn" />
      <span className="unseen">{t.run.warningCount(count)}</span>
    </span>
  );
}
