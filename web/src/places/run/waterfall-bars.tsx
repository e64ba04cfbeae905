// The bars of a row: one for each attempt, with the pauses between them and the moment of the first token.
import type { StepState } from "../../run/fold";
import type { RunFollower } from "../../run/follow";
import { shownPhase } from "../../run/rows";
import { t } from "../../strings";
import { formatDuration } from "../../ui/format";
import type { TimeSpan } from "./time-axis";
import "./waterfall.css";

/** Shorter bars would not be visible. */
const MIN_BAR_PERCENT = 0.4;

type Attempt = StepState["tries"][number];

type AttemptProps = {
  follower: RunFollower;
  step: StepState;
  /** The attempts that are drawn: their positions. */
  attempts: readonly number[];
  span: TimeSpan;
  /** The end of the time axis. */
  end: number;
};

export function AttemptBars({ follower, step, attempts, span, end }: AttemptProps) {
  return attempts.map((at) => {
    const one = step.tries[at];
    if (!one) return null;
    const next = attempts.includes(at + 1) ? step.tries[at + 1] : undefined;
    const isLast = at === step.tries.length - 1;
    const isWaiting = isLast && attempts.length > 1 && shownPhase(step) === "retrying";
    const stop = one.endedAt ?? (isLast ? end : one.startedAt);
    const state = one.error || !isLast ? "failed" : step.phase;
    return (
      <span key={one.number} role="presentation">
        {(next || isWaiting) && one.endedAt !== undefined && (
          <Bar start={one.endedAt} stop={next?.startedAt ?? end} span={span} look="pause" />
        )}
        <Bar start={one.startedAt} stop={stop} span={span} kind={step.kind} state={state} />
        <FirstToken follower={follower} step={step} attempt={one} stop={stop} span={span} />
      </span>
    );
  });
}

type TokenProps = {
  follower: RunFollower;
  step: StepState;
  attempt: Attempt;
  stop: number;
  span: TimeSpan;
};

/** The record does not say when the first token arrived; this page knows it if it was open then. */
function FirstToken({ follower, step, attempt, stop, span }: TokenProps) {
  const at = follower.history.firstTokenAt(step.path, attempt.number);
  if (at === undefined || attempt.startedAt < follower.openedAt) return null;
  const time = Math.max(attempt.startedAt, Math.min(stop, at));
  const place = ((time - span.start) / (span.end - span.start)) * 100;
  if (at > stop || place < 0 || place > 100) return null;
  const title = t.run.firstToken(formatDuration(time - attempt.startedAt));
  return <span className="first-token" title={title} style={{ left: `${place}%` }} />;
}

type BarProps = {
  start: number;
  stop: number;
  span: TimeSpan;
  kind?: string | undefined;
  state?: string;
  /** A group of steps, or a pause in which nothing is performed. */
  look?: "group" | "pause";
};

export function Bar({ start, stop, span, kind, state, look }: BarProps) {
  const length = span.end - span.start;
  const left = Math.max(0, ((start - span.start) / length) * 100);
  const right = Math.min(100, ((stop - span.start) / length) * 100);
  if (right < 0 || left > 100) return null;
  const width = Math.max(MIN_BAR_PERCENT, right - left);
  const style = { left: `${Math.min(left, 100 - MIN_BAR_PERCENT)}%`, width: `${width}%` };
  const title = look === "pause" ? t.run.pauseOf(formatDuration(stop - start)) : undefined;
  return (
    <span className="bar" data-kind={kind} data-state={state} data-look={look} title={title} style={style} />
  );
}
