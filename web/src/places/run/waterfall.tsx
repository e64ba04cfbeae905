// The steps of a run over time: a row for each step, a bar for each attempt. Only visible rows are drawn.
import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useEffect, useMemo, useRef, useState } from "react";
import type { RunState, StepState } from "../../run/fold";
import type { KnownRun } from "../../run/follow";
import { isFinal } from "../../run/record";
import {
  durationOf,
  findShown,
  isOver,
  type ShownPhase,
  type Summary,
  shownPhase,
  summarizeRow,
  type VisibleRow,
} from "../../run/rows";
import { type IdlePeriod, TimeScale } from "../../run/time-scale";
import { t } from "../../strings";
import { formatDuration } from "../../ui/format";
import { Icon, kindIcon } from "../../ui/icon";
import { isTyping, useKeys } from "../../ui/keyboard";
import { PhaseMark, WarningMark } from "../../ui/state";
import { isWithin, TimeAxis, type TimeSpan } from "./time-axis";
import type { RunView } from "./use-run";
import { AttemptBars, Bar, OutsideMark } from "./waterfall-bars";
import "./waterfall.css";

const ROW_HEIGHT_PX = 28;
/** How far a row is indented below the one around it. */
const DEPTH_PX = 16;

type WaterfallProps = {
  view: RunView;
  shown: VisibleRow[];
  selected: string | undefined;
  onSelect: (path: string) => void;
  onFold: (path: string, isOpen: boolean) => void;
  /** The time at the position. */
  time: number;
  /** Whether the newest step is brought into view while the run goes on. */
  isFollowed: boolean;
};

export function Waterfall(props: WaterfallProps) {
  const { view, shown, selected, onSelect, onFold, time } = props;
  const { state, follower } = view;
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: shown.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT_PX,
    overscan: 12,
  });
  const place = shown.findIndex(({ row }) => row.path === selected);
  const keepPlace = useFollowing(props, (at) => virtual.scrollToIndex(at, { align: "auto" }));
  useEffect(() => {
    if (place >= 0) virtual.scrollToIndex(place, { align: "auto" });
  }, [place, virtual]);
  const [zoom, zoomTo] = useZoom(state, shown, time, (at) => virtual.scrollToIndex(at, { align: "start" }));
  const end = isFinal(state.status) ? state.at : Math.max(time, state.createdAt + 1);
  const scale = useScale(view, end);
  const span = { ...(zoom ?? { start: state.createdAt, end }), scale };
  useRowKeys(shown[place], onFold, (line) => zoomTo(zoom || !line ? undefined : spanOf(state, line, time)));
  if (shown.length === 0) return <p className="empty">{t.run.noSteps}</p>;
  return (
    <>
      <TimeAxis
        span={span}
        origin={state.createdAt}
        queue={state.startedAt}
        isZoomed={zoom !== undefined}
        onZoom={zoomTo}
      />
      <div
        className="waterfall"
        ref={scroller}
        role="tree"
        aria-label={t.run.waterfall}
        tabIndex={0}
        onWheel={keepPlace}
        onTouchMove={keepPlace}
        onPointerDown={(event) => event.target === scroller.current && keepPlace()}
        aria-activedescendant={place >= 0 ? rowId(place) : undefined}
      >
        <div role="presentation" className="waterfall-rows" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map((item) => {
            const line = shown[item.index];
            if (!line) return null;
            return (
              <WaterfallRow
                key={`${line.row.path} ${line.attempt ?? ""}`}
                follower={follower}
                id={rowId(item.index)}
                top={item.start}
                line={line}
                state={state}
                seq={state.seq}
                span={span}
                end={end}
                time={time}
                isSelected={line.row.path === selected && line.attempt === undefined}
                onSelect={onSelect}
                onFold={onFold}
              />
            );
          })}
        </div>
      </div>
    </>
  );
}

/**
 * Brings the row of the newest event into view: whenever the viewer moves through the events, and while a run goes on until
 * the viewer selects a step or scrolls. Returns what is to be called then.
 */
function useFollowing(props: WaterfallProps, goTo: (at: number) => void) {
  const { view, shown, selected, isFollowed } = props;
  const { state, at, follower } = view;
  const hasScrolled = useRef(false);
  const path = follower.history.records[state.seq - 1]?.path;
  const place = path === undefined ? -1 : findShown(shown, path);
  const isLive = isFollowed && at === undefined && !isFinal(state.status) && selected === undefined;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a row is shown when the run or the viewer gets to it.
  useEffect(() => {
    if (place >= 0 && (at !== undefined || (isLive && !hasScrolled.current))) goTo(place);
  }, [place, at, isLive]);
  return () => {
    hasScrolled.current = true;
  };
}

/** The time axis of a run until `end`. */
function useScale({ state, follower }: RunView, end: number): TimeScale {
  const idle = useMemo(() => follower.history.listIdle(state.seq), [follower, state.seq]);
  return useMemo(() => {
    const isIdle = state.status === "waiting" || state.status === "uncertain";
    const all = isIdle && state.at < end ? [...idle, { start: state.at, end }] : idle;
    return new TimeScale(state.createdAt, end, all);
  }, [idle, state, end]);
}

/** The period that is shown in full, if the viewer has chosen one; choosing one goes to its first row. */
function useZoom(state: RunState, shown: VisibleRow[], time: number, goTo: (at: number) => void) {
  const [zoom, setZoom] = useState<IdlePeriod>();
  const zoomTo = (next: IdlePeriod | undefined) => {
    setZoom(next);
    const first = next ? findFirstWithin(state, shown, next, time) : -1;
    if (first >= 0) goTo(first);
  };
  return [zoom, zoomTo] as const;
}

/** The keys of the selected row: open or fold it, and zoom to it and back. */
function useRowKeys(
  line: VisibleRow | undefined,
  onFold: WaterfallProps["onFold"],
  onZoom: (line: VisibleRow | undefined) => void,
) {
  useKeys((event) => {
    if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "o" && line && line.children > 0) onFold(line.row.path, !line.isOpen);
    else if (event.key === "z") onZoom(line);
    else return;
    event.preventDefault();
  });
}

/** The time of a row, with some room around it. */
function spanOf(state: RunState, { row }: VisibleRow, time: number): IdlePeriod | undefined {
  const summary = summarizeRow(state, row);
  if (!summary) return undefined;
  const end = summary.endedAt ?? time;
  const room = Math.max(5, (end - summary.startedAt) / 20);
  return { start: summary.startedAt - room, end: end + room };
}

/** The first row that happens within a period, and that no unfolded row below it represents; -1 if there is none. */
function findFirstWithin(state: RunState, shown: VisibleRow[], span: IdlePeriod, time: number): number {
  return shown.findIndex(({ row, isOpen }) => {
    const summary = isOpen ? undefined : summarizeRow(state, row);
    return summary && isWithin(span, summary.startedAt, summary.endedAt ?? time);
  });
}

function rowId(index: number): string {
  return `row-${index}`;
}

type RowProps = {
  follower: KnownRun;
  id: string;
  top: number;
  line: VisibleRow;
  state: RunState;
  seq: number;
  span: TimeSpan;
  /** The end of the time axis. */
  end: number;
  /** The time at the position. */
  time: number;
  isSelected: boolean;
  onSelect: (path: string) => void;
  onFold: (path: string, isOpen: boolean) => void;
};

const WaterfallRow = memo(function WaterfallRow(props: RowProps) {
  const { id, top, line, state, time, isSelected, onSelect, onFold } = props;
  const { row, label, children, depth, isOpen } = line;
  const step = row.step === undefined ? undefined : state.steps[row.step];
  const summary = summarizeRow(state, row);
  if (!summary) return null;
  if (step && line.attempt !== undefined) {
    return <AttemptRow {...props} step={step} attempt={line.attempt} />;
  }
  const isGroup = children > 0;
  const endedAt = step && isOver(step) ? (step.finishedAt ?? summary.endedAt) : summary.endedAt;
  const ms = durationOf({ ...summary, endedAt }, time);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the tree.
    <div
      id={id}
      role="treeitem"
      tabIndex={-1}
      aria-level={depth + 1}
      aria-selected={isSelected}
      {...(isGroup && { "aria-expanded": isOpen })}
      aria-label={describeRow(label, step, summary, ms)}
      className="waterfall-row"
      data-state={summary.phase}
      style={{ transform: `translateY(${top}px)` }}
      onClick={() => onSelect(row.path)}
    >
      <span className="waterfall-name" style={{ paddingLeft: 8 + depth * DEPTH_PX }}>
        {isGroup ? (
          <button
            type="button"
            tabIndex={-1}
            className="fold"
            aria-label={isOpen ? t.run.collapse(label) : t.run.expand(label)}
            onClick={(event) => {
              event.stopPropagation();
              onFold(row.path, !isOpen);
            }}
          >
            <Icon name={isOpen ? "down" : "right"} />
          </button>
        ) : (
          <span className="fold faint">
            <Icon name={kindIcon(step?.kind)} />
          </span>
        )}
        <span className="cut">{label}</span>
        {isGroup && row.children.length > 0 && (
          <span className="badge number">{t.run.iterations(children)}</span>
        )}
        {step && step.attempts > 1 && <span className="badge number">↻ {step.attempts}</span>}
        <span className="waterfall-phase">
          <WarningMark count={summary.warnings} />
          <PhaseMark phase={summary.phase} isIconOnly />
        </span>
      </span>
      <span className="waterfall-lane">
        <RowBars {...props} step={step} summary={summary} />
      </span>
      <span className="waterfall-time number">{formatDuration(ms)}</span>
    </div>
  );
});

/** The bars of a row: one for each attempt of its own step, or one for everything in it. */
function RowBars(props: RowProps & { step: StepState | undefined; summary: Summary }) {
  const { follower, line, span, end, step, summary } = props;
  const hasParts = line.children > 0 && line.row.children.length > 0;
  return (
    <>
      {step && step.tries.length > 0 && !hasParts ? (
        <AttemptBars
          follower={follower}
          step={step}
          attempts={[...step.tries.keys()]}
          span={span}
          end={end}
        />
      ) : (
        <Bar start={summary.startedAt} stop={summary.endedAt ?? end} span={span} look="group" />
      )}
      <OutsideMark start={summary.startedAt} stop={summary.endedAt ?? end} span={span} />
    </>
  );
}

type RowSummary = { phase: ShownPhase; warnings: number };

function describeRow(label: string, step: StepState | undefined, summary: RowSummary, ms: number): string {
  const kind = step?.kind ? `, ${t.kind(step.kind)}` : "";
  const warnings = summary.warnings > 0 ? `, ${t.run.warningCount(summary.warnings)}` : "";
  return `${label}${kind}, ${t.phase[summary.phase]}${warnings}, ${formatDuration(ms)}`;
}

/** An attempt of a step that was tried again. */
function AttemptRow(props: RowProps & { step: StepState; attempt: number }) {
  const { id, top, line, follower, step, attempt, span, end, time, isSelected, onSelect } = props;
  const one = step.tries[attempt];
  if (!one) return null;
  const isLast = attempt === step.tries.length - 1;
  const stop = one.endedAt ?? (isLast ? time : one.startedAt);
  const phase = one.error || !isLast ? "failed" : shownPhase(step);
  const label = t.run.attempt(one.number);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the tree.
    <div
      id={id}
      role="treeitem"
      tabIndex={-1}
      aria-level={line.depth + 1}
      aria-selected={isSelected}
      aria-label={describeRow(label, undefined, { phase, warnings: 0 }, stop - one.startedAt)}
      className="waterfall-row"
      data-state={phase}
      style={{ transform: `translateY(${top}px)` }}
      onClick={() => onSelect(step.path)}
    >
      <span className="waterfall-name" style={{ paddingLeft: 8 + line.depth * DEPTH_PX }}>
        <span className="fold" />
        <span className="cut soft">{label}</span>
        <span className="waterfall-phase">
          <PhaseMark phase={phase} isIconOnly />
        </span>
      </span>
      <span className="waterfall-lane">
        <AttemptBars follower={follower} step={step} attempts={[attempt]} span={span} end={end} />
        <OutsideMark start={one.startedAt} stop={one.endedAt ?? (isLast ? end : one.startedAt)} span={span} />
      </span>
      <span className="waterfall-time number">{formatDuration(stop - one.startedAt)}</span>
    </div>
  );
}
