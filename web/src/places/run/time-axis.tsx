// The time axis above the steps. Dragging over it zooms.
import { type PointerEvent, useRef, useState } from "react";
import { t } from "../../strings";
import { formatDuration } from "../../ui/format";

/** A period, in milliseconds since the Unix epoch. */
export type TimeSpan = { start: number; end: number };

/** Whether something happens in a period. */
export function isWithin(span: TimeSpan, start: number, stop: number): boolean {
  return stop >= span.start && start <= span.end;
}

/** Maximum number of labels on the axis. */
const MAX_TICKS = 4;
/** The part of the axis that a label needs. One closer to the end, or to the place where the axis breaks off, is left out. */
const LABEL_WIDTH = 0.1;
/** A shorter drag is a click. */
const MIN_DRAG_PX = 6;

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** Distances between ticks. */
const STEPS_MS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 30_000],
  ...[1, 2, 5, 10, 20, 30].map((minutes) => minutes * MINUTE_MS),
  ...[1, 2, 4, 6, 12, 24].map((hours) => hours * HOUR_MS),
];

type TimeAxisProps = {
  span: TimeSpan;
  /** The time that counts as zero. */
  origin: number;
  /** When the run began; before that it was queued. */
  queue: number | undefined;
  /** Where the axis breaks off, although the run still waits. */
  cut: number | undefined;
  isZoomed: boolean;
  onZoom: (span: TimeSpan | undefined) => void;
};

export function TimeAxis({ span, origin, queue, cut, isZoomed, onZoom }: TimeAxisProps) {
  const lane = useRef<HTMLDivElement>(null);
  const [drag, setDrag] = useState<{ from: number; to: number }>();
  const positionOf = (event: PointerEvent) => {
    const box = lane.current?.getBoundingClientRect();
    return box ? Math.max(0, Math.min(1, (event.clientX - box.left) / box.width)) : 0;
  };
  const onPointerUp = () => {
    const width = lane.current?.clientWidth ?? 1;
    setDrag(undefined);
    if (!drag || Math.abs(drag.to - drag.from) * width < MIN_DRAG_PX) return;
    const length = span.end - span.start;
    const timeAt = (place: number) => span.start + place * length;
    onZoom({ start: timeAt(Math.min(drag.from, drag.to)), end: timeAt(Math.max(drag.from, drag.to)) });
  };
  const ticks = listTicks(span.start - origin, span.end - origin, cut === undefined ? 1 : placeOf(cut, span));
  return (
    <div className="time-axis">
      <span className="time-axis-name">
        {isZoomed ? (
          <button type="button" className="button" data-look="quiet" onClick={() => onZoom(undefined)}>
            {t.run.zoomReset}
          </button>
        ) : (
          <span className="faint">{t.run.zoomHelp}</span>
        )}
      </span>
      <div
        className="time-axis-lane number"
        ref={lane}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          const from = positionOf(event);
          setDrag({ from, to: from });
        }}
        onPointerMove={(event) => drag && setDrag({ ...drag, to: positionOf(event) })}
        onPointerUp={onPointerUp}
      >
        {ticks.map((tick) => (
          <span key={tick.time} className="tick" style={{ left: `${tick.place * 100}%` }}>
            {formatTick(tick.time)}
          </span>
        ))}
        {queue !== undefined && queue > span.start && (
          <span
            className="axis-queue"
            title={t.run.queuedFor(formatDuration(queue - origin))}
            style={{ width: `${Math.min(1, placeOf(queue, span)) * 100}%` }}
          />
        )}
        {cut !== undefined && isWithin(span, cut, cut) && (
          <span
            className="axis-cut"
            title={t.run.notToScale}
            style={{ left: `${placeOf(cut, span) * 100}%` }}
          />
        )}
        {drag && (
          <span
            className="brush"
            style={{
              left: `${Math.min(drag.from, drag.to) * 100}%`,
              width: `${Math.abs(drag.to - drag.from) * 100}%`,
            }}
          />
        )}
      </div>
    </div>
  );
}

/** The place of a time in a period, from 0 to 1. */
function placeOf(time: number, span: TimeSpan): number {
  return (time - span.start) / (span.end - span.start);
}

/** Round times within a period before the place `last`, with their places from 0 to 1. */
export function listTicks(start: number, end: number, last = 1): { time: number; place: number }[] {
  const length = end - start;
  const step =
    STEPS_MS.find((one) => length / one <= MAX_TICKS) ?? HOUR_MS * Math.ceil(length / HOUR_MS / MAX_TICKS);
  const ticks: { time: number; place: number }[] = [];
  const labelEnd = Math.min(last, 1) - LABEL_WIDTH;
  for (let time = Math.ceil(start / step) * step; (time - start) / length < labelEnd; time += step) {
    ticks.push({ time, place: (time - start) / length });
  }
  return ticks;
}

/** A round time without digits that say nothing: 500 ms, 1.5 s, 20 s. */
export function formatTick(ms: number): string {
  if (ms === 0) return "0";
  return ms >= 1000 && ms < MINUTE_MS ? `${ms / 1000} s` : formatDuration(ms);
}
