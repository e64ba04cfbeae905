// The bars of a row: one for each attempt, with the pauses between them and the moment of the first token.
import type { StepState } from "../../run/fold";
import type { KnownRun } from "../../run/follow";
import { shownPhase } from "../../run/rows";
import { t } from "../../strings";
import { formatDuration } from "../../ui/format";
import { isWithin, listGaps, placeOf, type TimeSpan } from "./time-axis";
import "./waterfall.css";

/** Shorter bars would not be visible. */
const MIN_BAR_PERCENT = 0.4;

type Attempt = StepState["tries"][number];

type AttemptProps = {
  follower: KnownRun;
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
        <Queue attempt={one} stop={stop} span={span} />
        <FirstToken follower={follower} step={step} attempt={one} stop={stop} span={span} />
        <Takeovers follower={follower} start={one.startedAt} stop={stop} span={span} />
      </span>
    );
  });
}

type TokenProps = {
  follower: KnownRun;
  step: StepState;
  attempt: Attempt;
  stop: number;
  span: TimeSpan;
};

/** The time in which an attempt waited for its turn, at the beginning of its bar. */
function Queue({ attempt, stop, span }: { attempt: Attempt; stop: number; span: TimeSpan }) {
  const waited = attempt.response?.queued_ms;
  if (waited === undefined) return null;
  const until = Math.min(stop, attempt.startedAt + waited);
  return <Bar start={attempt.startedAt} stop={until} span={span} look="queue" />;
}

/** When the first token arrived: as recorded, or as this page saw it if it was open then. */
function findFirstToken({ follower, step, attempt }: TokenProps): number | undefined {
  const recorded = attempt.response?.first_token_ms;
  if (recorded !== undefined) return attempt.startedAt + recorded;
  const seen = follower.history.firstTokenAt(step.path, attempt.number);
  return attempt.startedAt < follower.openedAt ? undefined : seen;
}

function FirstToken(props: TokenProps) {
  const { attempt, stop, span } = props;
  const at = findFirstToken(props);
  if (at === undefined) return null;
  const time = Math.max(attempt.startedAt, Math.min(stop, at));
  const place = placeOf(time, span) * 100;
  if (at > stop || place < 0 || place > 100) return null;
  const title = t.run.firstToken(formatDuration(time - attempt.startedAt));
  return <span className="first-token" title={title} style={{ left: `${place}%` }} />;
}

type TakeoverProps = { follower: KnownRun; start: number; stop: number; span: TimeSpan };

/** Where another process continued an attempt: the time before and after is not one request. */
function Takeovers({ follower, start, stop, span }: TakeoverProps) {
  const within = follower.history.listTakeovers().filter((time) => time > start && time < stop);
  return within.map((time) => {
    const place = placeOf(time, span) * 100;
    if (place < 0 || place > 100) return null;
    const title = t.run.takenOver(formatDuration(time - start));
    return <span key={time} className="takeover" title={title} style={{ left: `${place}%` }} />;
  });
}

type BarProps = {
  start: number;
  stop: number;
  span: TimeSpan;
  kind?: string | undefined;
  state?: string;
  /** A group of steps, a pause in which nothing is performed, or the time before an attempt got its turn. */
  look?: "group" | "pause" | "queue";
};

export function Bar({ start, stop, span, kind, state, look }: BarProps) {
  const left = Math.max(0, placeOf(start, span) * 100);
  const right = Math.min(100, placeOf(stop, span) * 100);
  if (right < 0 || left > 100) return null;
  const width = Math.max(MIN_BAR_PERCENT, right - left);
  const style = { left: `${Math.min(left, 100 - MIN_BAR_PERCENT)}%`, width: `${width}%` };
  const title = describeBar(look, formatDuration(stop - start));
  const gaps = listGaps(span).filter((gap) => start <= gap.start && gap.end <= stop);
  return (
    <>
      <span
        className="bar"
        data-kind={kind}
        data-state={state}
        data-look={look}
        title={title}
        style={style}
      />
      {gaps.map((gap) => (
        <span
          key={gap.start}
          className="bar-gap"
          title={t.run.notToScale(formatDuration(gap.end - gap.start))}
          style={{ left: `${gap.place * 100}%` }}
        />
      ))}
    </>
  );
}

/** Where the bar of a row is if it is not within the period that is shown. */
export function OutsideMark({ start, stop, span }: { start: number; stop: number; span: TimeSpan }) {
  if (isWithin(span, start, stop)) return null;
  const isBefore = stop < span.start;
  return (
    <span className="outside" data-side={isBefore ? "before" : "after"} title={t.run.outside(isBefore)}>
      {isBefore ? "‹" : "›"}
    </span>
  );
}

function describeBar(look: BarProps["look"], time: string): string | undefined {
  if (look === "pause") return t.run.pauseOf(time);
  return look === "queue" ? t.run.queuedFor(time) : undefined;
}
