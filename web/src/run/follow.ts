// Follows a run: reads its events, reconnects without losing or repeating one, and tells the page once per frame.
import { readEvents, StreamRefused } from "../api/event-stream";
import type { StreamedEvent } from "../api/event-stream-parser";
import { parseJson } from "../api/json";
import { RunHistory } from "./history";
import { type Delta, isFinal, type RunRecord, type RunStatus } from "./record";

const RECONNECT_MS = 1000;
/** A suspended run has no live events; it is asked again after this time. */
const POLL_MS = 2000;

export type Connection = "loading" | "live" | "lost" | "ended" | "missing";

export class RunFollower {
  readonly history = new RunHistory();
  /** Of steps that began later, every piece of their answers was seen when it arrived. */
  readonly openedAt = Date.now();
  connection: Connection = "loading";
  /** Increases with every change that the page should show. */
  version = 0;
  private readonly listeners = new Set<() => void>();
  private readonly abort = new AbortController();
  private isScheduled = false;
  private wake: (() => void) | undefined;

  constructor(readonly run: string) {
    void this.follow();
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  getVersion = (): number => this.version;

  /** Asks at once whether the run goes on, for example after it was answered. */
  refresh(): void {
    this.wake?.();
  }

  close(): void {
    this.abort.abort();
    this.wake?.();
  }

  private async follow(): Promise<void> {
    const { signal } = this.abort;
    while (!signal.aborted) {
      const end = await this.readOnce(signal);
      if (signal.aborted) return;
      if (end === "missing" || (end && isFinal(end))) {
        this.setConnection(end === "missing" ? "missing" : "ended");
        await this.pause(undefined);
      } else {
        this.setConnection(end ? "live" : "lost");
        await this.pause(end ? POLL_MS : RECONNECT_MS);
      }
    }
  }

  /** Reads one stream; the status at its end, or undefined if the connection broke. */
  private async readOnce(signal: AbortSignal): Promise<RunStatus | "missing" | undefined> {
    const path = `api/v1/runs/${encodeURIComponent(this.run)}/events?deltas=true&from=${this.history.length}`;
    let end: RunStatus | undefined;
    const onEvents = (events: StreamedEvent[]) => {
      for (const event of events) end = this.take(event) ?? end;
      if (this.connection !== "ended") this.connection = "live";
      this.announce();
    };
    try {
      await readEvents(path, signal, onEvents);
      return end;
    } catch (error) {
      return error instanceof StreamRefused && error.status === 404 ? "missing" : undefined;
    }
  }

  /** Takes an event in; the status of the run if it is the last one of the stream. */
  private take({ name, data }: StreamedEvent): RunStatus | undefined {
    if (name === "delta") {
      this.history.addDelta(JSON.parse(data) as Delta, Date.now());
      return undefined;
    }
    if (name === "done") return (JSON.parse(data) as { status: RunStatus }).status;
    this.history.add(parseJson(data) as unknown as RunRecord);
    return undefined;
  }

  private setConnection(connection: Connection): void {
    if (this.connection === connection) return;
    this.connection = connection;
    this.announce();
  }

  private pause(ms: number | undefined): Promise<void> {
    return new Promise((resolve) => {
      const timer = ms === undefined ? undefined : setTimeout(resolve, ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  private announce(): void {
    if (this.isScheduled) return;
    this.isScheduled = true;
    const notify = () => {
      this.isScheduled = false;
      this.version++;
      for (const listener of this.listeners) listener();
    };
    // A hidden tab gets no frames.
    if (document.hidden) setTimeout(notify, 250);
    else requestAnimationFrame(notify);
  }
}
