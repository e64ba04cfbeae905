// The scrubber: moves through all events of a run, plays them, and jumps to failures.
import { type PointerEvent, type RefObject, useEffect, useRef, useState } from "react";
import type { RunHistory } from "../../run/history";
import { isFinal } from "../../run/record";
import { t } from "../../strings";
import { Button, IconButton } from "../../ui/button";
import { formatNumber } from "../../ui/format";
import { isTyping, useKeys } from "../../ui/keyboard";
import type { RunView } from "./use-run";
import "./scrubber.css";

const SPEEDS = [1, 2, 5, 10, 100] as const;
/** Playing waits at most this long for the next event. */
const MAX_GAP_MS = 1000;
const MAX_MARKS = 200;

type ScrubberProps = {
  view: RunView;
  /** The part of the page in which keys move the scrubber, if it is not the whole page. */
  within?: RefObject<HTMLElement | null>;
};

export function Scrubber({ view, within }: ScrubberProps) {
  const { follower, state, seek, seekBy } = view;
  const { history } = follower;
  const last = history.length;
  const seq = state.seq;
  const [speed, setSpeed] = useState<number>(1);
  const player = usePlayer(history, seq, speed, seek);
  const move = (wanted: number) => {
    player.pause();
    seek(wanted);
  };
  const moveBy = (events: number) => {
    player.pause();
    seekBy(events);
  };
  const jump = () => {
    const failure = history.nextFailure(seq);
    if (failure !== undefined) move(failure);
  };
  useScrubberKeys({ last, move, moveBy, jump, toggle: player.toggle }, within);
  return (
    <footer className="scrubber">
      <div className="scrubber-buttons">
        <IconButton icon="first" label={t.run.first} onClick={() => move(1)} />
        <IconButton icon="left" label={t.run.back} onClick={() => moveBy(-1)} />
        <IconButton
          icon={player.isPlaying ? "pause" : "play"}
          label={player.isPlaying ? t.run.pause : t.run.play}
          onClick={player.toggle}
        />
        <IconButton icon="right" label={t.run.forward} onClick={() => moveBy(1)} />
        <IconButton icon="last" label={t.run.last} onClick={() => move(last)} />
        <IconButton
          icon="warn"
          label={t.run.nextFailure}
          onClick={jump}
          disabled={history.failurePositions.length === 0}
        />
        <select
          className="scrubber-speed"
          aria-label={t.run.speed}
          value={speed}
          onChange={(event) => setSpeed(Number(event.target.value))}
        >
          {SPEEDS.map((one) => (
            <option key={one} value={one}>
              {one}×
            </option>
          ))}
        </select>
      </div>
      <Track history={history} seq={seq} onMove={move} />
      <span className="scrubber-position number" data-testid="position">
        {formatNumber(seq)} / {formatNumber(last)}
      </span>
      <PositionMark view={view} />
    </footer>
  );
}

type Movements = {
  last: number;
  move: (wanted: number) => void;
  moveBy: (events: number) => void;
  jump: () => void;
  toggle: () => void;
};

/** The keys of the scrubber: in the whole page, or within a part of it. */
function useScrubberKeys({ last, move, moveBy, jump, toggle }: Movements, within: ScrubberProps["within"]) {
  const moveByKey = (event: { key: string; shiftKey: boolean }) => {
    const events = movementOfKey(event, last);
    if (events !== undefined) moveBy(events);
    else if (event.key === "Home") move(1);
    else if (event.key === "End") move(last);
    else if (event.key === " ") toggle();
    else if (event.key === "e") jump();
    else return false;
    return true;
  };
  useKeys((event) => {
    if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
    const isOnControl = event.target instanceof Element && event.target.closest("button, a, [role=tab]");
    if (isOnControl && event.key === " ") return;
    if (moveByKey(event)) event.preventDefault();
  }, within);
}

/** Whether the viewer is at the newest event, and the way there. */
function PositionMark({ view: { newest, at, seek } }: { view: RunView }) {
  const isEnded = isFinal(newest.status);
  if (at === undefined) return <span className="soft">{isEnded ? t.run.end : t.run.live}</span>;
  return (
    <Button onClick={() => seek(undefined)} title={t.run.past}>
      {isEnded ? t.run.goEnd : t.run.goLive}
    </Button>
  );
}

/** How many events a key moves by. */
function movementOfKey(event: { key: string; shiftKey: boolean }, last: number): number | undefined {
  const step = event.shiftKey ? 10 : 1;
  const page = Math.ceil(last / 10);
  switch (event.key) {
    case "ArrowLeft":
      return -step;
    case "ArrowRight":
      return step;
    case "PageUp":
      return -page;
    case "PageDown":
      return page;
    default:
      return undefined;
  }
}

type TrackProps = { history: RunHistory; seq: number; onMove: (seq: number) => void };

function Track({ history, seq, onMove }: TrackProps) {
  const track = useRef<HTMLDivElement>(null);
  const last = Math.max(1, history.length);
  const moveTo = (event: PointerEvent) => {
    const box = track.current?.getBoundingClientRect();
    if (box) onMove(Math.round(1 + ((event.clientX - box.left) / box.width) * (last - 1)));
  };
  const percentOf = (position: number) => (last === 1 ? 100 : ((position - 1) / (last - 1)) * 100);
  return (
    <div
      className="track"
      ref={track}
      role="slider"
      tabIndex={0}
      aria-label={t.run.scrubber}
      aria-valuemin={1}
      aria-valuemax={last}
      aria-valuenow={seq}
      aria-valuetext={t.run.position(seq, last)}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        moveTo(event);
      }}
      onPointerMove={(event) => event.buttons > 0 && moveTo(event)}
    >
      <span className="track-done" style={{ width: `${percentOf(seq)}%` }} />
      {history.failurePositions.slice(0, MAX_MARKS).map((position) => (
        <span key={position} className="track-mark" style={{ left: `${percentOf(position)}%` }} />
      ))}
      <span className="track-thumb" style={{ left: `${percentOf(seq)}%` }} />
    </div>
  );
}

/** Plays the events with the pauses that were between them, shortened. */
function usePlayer(history: RunHistory, seq: number, speed: number, seek: (seq: number) => void) {
  const [isPlaying, setIsPlaying] = useState(false);
  useEffect(() => {
    if (!isPlaying) return;
    const present = history.records[seq - 1];
    const next = history.records[seq];
    if (!present || !next) {
      setIsPlaying(false);
      return;
    }
    const gap = Math.min(MAX_GAP_MS, next.at - present.at) / speed;
    // Events that are closer than a frame are shown together.
    const target = gap < 16 ? Math.max(seq + 1, history.seqAt(present.at + 16 * speed)) : seq + 1;
    const timer = setTimeout(() => seek(target), Math.max(16, gap));
    return () => clearTimeout(timer);
  }, [isPlaying, history, seq, speed, seek]);
  const toggle = () => {
    if (!isPlaying && seq >= history.length) seek(1);
    setIsPlaying(!isPlaying);
  };
  return { isPlaying, toggle, pause: () => setIsPlaying(false) };
}
