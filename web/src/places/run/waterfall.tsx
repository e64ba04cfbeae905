// The steps of a run over time: a row for each step, a bar for each attempt. Only visible rows are drawn.
import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useEffect, useRef, useState } from "react";
import type { RunState, StepState } from "../../run/fold";
import { isFinal } from "../../run/record";
import { isOver, summarizeSteps, type VisibleRow } from "../../run/rows";
import { t } from "../../strings";
import { formatDuration } from "../../ui/format";
import { Icon, kindIcon } from "../../ui/icon";
import { PhaseMark } from "../../ui/state";
import { TimeAxis, type TimeSpan } from "./time-axis";
import type { RunView } from "./use-run";

const ROW_HEIGHT_PX = 28;
/** Shorter bars would not be visible. */
const MIN_BAR_PERCENT = 0.4;

type WaterfallProps = {
  view: RunView;
  shown: VisibleRow[];
  selected: string | undefined;
  onSelect: (path: string) => void;
  onFold: (path: string, isOpen: boolean) => void;
  /** The time at the position. */
  time: number;
};

export function Waterfall({ view, shown, selected, onSelect, onFold, time }: WaterfallProps) {
  const { state } = view;
  const [zoom, setZoom] = useState<TimeSpan>();
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: shown.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT_PX,
    overscan: 12,
  });
  const place = shown.findIndex(({ row }) => row.path === selected);
  useEffect(() => {
    if (place >= 0) virtual.scrollToIndex(place, { align: "auto" });
  }, [place, virtual]);
  const end = endOf(state, time);
  const span = zoom ?? { start: state.createdAt, end: Math.max(end, state.createdAt + 1) };
  if (shown.length === 0) return <p className="empty">{t.run.noSteps}</p>;
  return (
    <>
      <TimeAxis span={span} origin={state.createdAt} isZoomed={zoom !== undefined} onZoom={setZoom} />
      <div
        className="waterfall"
        ref={scroller}
        role="tree"
        aria-label={t.run.waterfall}
        tabIndex={0}
        aria-activedescendant={place >= 0 ? rowId(place) : undefined}
      >
        <div role="presentation" className="waterfall-rows" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map((item) => {
            const line = shown[item.index];
            if (!line) return null;
            return (
              <WaterfallRow
                key={line.row.path}
                id={rowId(item.index)}
                top={item.start}
                line={line}
                state={state}
                seq={state.seq}
                span={span}
                end={end}
                time={time}
                isSelected={line.row.path === selected}
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

/** The end of the time axis. The time in which a run only waits is not drawn in full: it would hide what happened. */
function endOf(state: RunState, time: number): number {
  if (isFinal(state.status)) return state.at;
  const isSuspended = state.status === "waiting" || state.status === "uncertain";
  return isSuspended ? Math.min(time, state.at + (state.at - state.createdAt) / 8 + 1) : time;
}

function rowId(index: number): string {
  return `row-${index}`;
}

type RowProps = {
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
  const { id, top, line, state, span, end, time, isSelected, onSelect, onFold } = props;
  const { row, label, children, depth, isOpen } = line;
  const step = row.step === undefined ? undefined : state.steps[row.step];
  const summary = summarizeSteps(state, row.steps);
  if (!summary) return null;
  const isGroup = children > 0;
  const endedAt = step && isOver(step) ? (step.finishedAt ?? summary.endedAt) : summary.endedAt;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the tree.
    <div
      id={id}
      role="treeitem"
      tabIndex={-1}
      aria-level={depth + 1}
      aria-selected={isSelected}
      {...(isGroup && { "aria-expanded": isOpen })}
      aria-label={describeRow(label, step, summary.phase, (endedAt ?? time) - summary.startedAt)}
      className="waterfall-row"
      data-state={summary.phase}
      style={{ transform: `translateY(${top}px)` }}
      onClick={() => onSelect(row.path)}
    >
      <span className="waterfall-name" style={{ paddingLeft: 8 + depth * 14 }}>
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
        {isGroup && <span className="badge number">{t.run.iterations(children)}</span>}
        {step && step.attempts > 1 && <span className="badge number">↻ {step.attempts}</span>}
        <span className="waterfall-phase">
          <PhaseMark phase={summary.phase} isIconOnly />
        </span>
      </span>
      <span className="waterfall-lane">
        <Bars isGroup={isGroup} step={step} summary={summary} span={span} end={end} />
      </span>
      <span className="waterfall-time number">{formatDuration((endedAt ?? time) - summary.startedAt)}</span>
    </div>
  );
});

function describeRow(
  label: string,
  step: StepState | undefined,
  phase: StepState["phase"],
  ms: number,
): string {
  const kind = step?.kind ? `, ${step.kind}` : "";
  return `${label}${kind}, ${t.phase[phase]}, ${formatDuration(ms)}`;
}

type BarsProps = {
  isGroup: boolean;
  step: StepState | undefined;
  summary: { startedAt: number; endedAt: number | undefined };
  span: TimeSpan;
  end: number;
};

function Bars({ isGroup, step, summary, span, end }: BarsProps) {
  if (step && step.tries.length > 0 && !isGroup) {
    return step.tries.map((one, at) => {
      const isLast = at === step.tries.length - 1;
      const stop = one.endedAt ?? (isLast ? end : one.startedAt);
      const state = one.error ? "failed" : isLast ? step.phase : "failed";
      return (
        <Bar key={one.number} start={one.startedAt} stop={stop} span={span} kind={step.kind} state={state} />
      );
    });
  }
  return <Bar start={summary.startedAt} stop={summary.endedAt ?? end} span={span} isGroup />;
}

type BarProps = {
  start: number;
  stop: number;
  span: TimeSpan;
  kind?: string | undefined;
  state?: string;
  isGroup?: boolean;
};

function Bar({ start, stop, span, kind, state, isGroup = false }: BarProps) {
  const length = span.end - span.start;
  const left = Math.max(0, ((start - span.start) / length) * 100);
  const right = Math.min(100, ((stop - span.start) / length) * 100);
  if (right < 0 || left > 100) return null;
  const width = Math.max(MIN_BAR_PERCENT, right - left);
  const style = { left: `${Math.min(left, 100 - MIN_BAR_PERCENT)}%`, width: `${width}%` };
  return (
    <span
      className="bar"
      data-kind={kind}
      data-state={state}
      data-group={isGroup || undefined}
      style={style}
    />
  );
}
