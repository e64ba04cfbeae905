// The time axis above the steps. Dragging over it zooms.
import { type PointerEvent, useRef, useState } from "react";
import type { IdlePeriod, TimeScale } from "../../run/time-scale";
import { t } from "../../strings";
import { formatDuration } from "../../ui/format";

/** A period that is shown, in milliseconds since the Unix epoch, and how it is drawn. */
export type TimeSpan = IdlePeriod & { scale: TimeScale };

/** Whether something happens in a period. */
export function isWithin(span: IdlePeriod, start: number, stop: number): boolean {
  return stop >= span.start && start <= span.end;
}

/** The place of a time in a period, from 0 to 1. */
export function placeOf(time: number, { start, end, scale }: TimeSpan): number {
  const first = scale.toAxis(start);
  return (scale.toAxis(time) - first) / (scale.toAxis(end) - first);
}

/** The time at a place of a period. */
function timeAt(place: number, { start, end, scale }: TimeSpan): number {
  const first = scale.toAxis(start);
  return scale.toTime(first + place * (scale.toAxis(end) - first));
}

/** The gaps in a period, each with the place of its middle. */
export function listGaps(span: TimeSpan): { start: number; end: number; place: number }[] {
  return span.scale.gaps
    .map(({ start, end }) => ({ start, end, place: placeOf((start + end) / 2, span) }))
    .filter(({ place }) => place > 0 && place < 1);
}

/** Maximum number of labels on the axis. */
const MAX_TICKS = 4;
/** The part of the axis that a label needs. One closer to the end, or to a gap, is left out. */
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
  isZoomed: boolean;
  onZoom: (span: IdlePeriod | undefined) => void;
};

export function TimeAxis({ span, origin, queue, isZoomed, onZoom }: TimeAxisProps) {
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
    const [from, to] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)];
    onZoom({ start: timeAt(from, span), end: timeAt(to, span) });
  };
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
        {listTicks(span, origin).map((tick) => (
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
        {listGaps(span).map(({ start, end, place }) => (
          <span
            key={start}
            className="axis-gap"
            title={t.run.notToScale(formatDuration(end - start))}
            style={{ left: `${place * 100}%` }}
          />
        ))}
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

/** Round times within a period, counted from `origin`, with their places. None is in a gap. */
export function listTicks(span: TimeSpan, origin: number): { time: number; place: number }[] {
  const length = span.scale.toAxis(span.end) - span.scale.toAxis(span.start);
  const step =
    STEPS_MS.find((one) => length / one <= MAX_TICKS) ?? HOUR_MS * Math.ceil(length / HOUR_MS / MAX_TICKS);
  const ticks: { time: number; place: number }[] = [];
  let free = 0;
  for (const part of span.scale.listScaled(span)) {
    const last = placeOf(part.end, span) - LABEL_WIDTH;
    for (let time = Math.ceil((part.start - origin) / step) * step; ; time += step) {
      const place = placeOf(origin + time, span);
      if (place >= last) break;
      if (place < free) continue;
      ticks.push({ time, place });
      free = place + LABEL_WIDTH;
    }
  }
  return ticks;
}

/** A round time without digits that say nothing: 500 ms, 1.5 s, 20 s. */
export function formatTick(ms: number): string {
  if (ms === 0) return "0";
  if (ms < 1000) return formatDuration(ms);
  return ms < MINUTE_MS ? `${ms / 1000} s` : formatDuration(ms).replace(/ 0 [a-z]+$/, "");
}
