// The time axis above the steps. Dragging over it zooms.
import { type PointerEvent, useRef, useState } from "react";
import { t } from "../../strings";
import { formatDuration } from "../../ui/format";

/** A period, in milliseconds since the Unix epoch. */
export type TimeSpan = { start: number; end: number };

const TICKS = 3;
/** A shorter drag is a click. */
const MIN_DRAG_PX = 6;

type TimeAxisProps = {
  span: TimeSpan;
  /** The time that counts as zero. */
  origin: number;
  isZoomed: boolean;
  onZoom: (span: TimeSpan | undefined) => void;
};

export function TimeAxis({ span, origin, isZoomed, onZoom }: TimeAxisProps) {
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
  const ticks = Array.from({ length: TICKS }, (_, at) => at / TICKS);
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
          <span key={tick} className="tick" style={{ left: `${tick * 100}%` }}>
            {formatDuration(span.start + tick * (span.end - span.start) - origin)}
          </span>
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
