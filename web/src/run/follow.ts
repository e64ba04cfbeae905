// Follows a run: reads its events, reconnects without losing or repeating one, and notifies the page once per frame.
import { readEvents, StreamRefused } from "../api/event-stream";
import type { StreamedEvent } from "../api/event-stream-parser";
import { parseJson } from "../api/json";
import { RunHistory } from "./history";
import { type Delta, isFinal, type RunRecord, type RunStatus } from "./record";

/** `lost`: the server cannot be reached; `refused`: it does not accept the key. */
export type Connection = "loading" | "live" | "lost" | "refused" | "ended" | "missing";

/** The server is asked again after this time; without one, when the viewer acts. A suspended run has no live events. */
const PAUSES_MS: Partial<Record<Connection, number>> = { live: 2000, lost: 1000, refused: 1000 };

/** What a refusal of the server means, by its status. */
const REFUSALS: { [status: number]: Connection } = { 404: "missing", 401: "refused" };

/** A run whose events are here. */
export type KnownRun = Pick<RunFollower, "run" | "history" | "openedAt" | "connection" | "refresh">;

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

  /** Checks immediately whether the run continues, for example after an answer. */
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
      const connection = await this.readOnce(signal);
      if (signal.aborted) return;
      this.setConnection(connection);
      await this.pause(PAUSES_MS[connection]);
    }
  }

  /** Reads one stream, and returns the state at its end. A stream without a status at its end broke off. */
  private async readOnce(signal: AbortSignal): Promise<Connection> {
    const path = `api/v1/runs/${encodeURIComponent(this.run)}/events?deltas=true&from=${this.history.length}`;
    let end: RunStatus | undefined;
    const onEvents = (events: StreamedEvent[]) => {
      for (const event of events) end = this.take(event) ?? end;
      if (this.connection !== "ended") this.connection = "live";
      this.announce();
    };
    try {
      await readEvents(path, signal, onEvents);
    } catch (error) {
      return error instanceof StreamRefused ? (REFUSALS[error.status] ?? "lost") : "lost";
    }
    if (end === undefined) return "lost";
    return isFinal(end) ? "ended" : "live";
  }

  /** Takes an event in; the status of the run if it is the last one of the stream. */
  private take({ name, data }: StreamedEvent): RunStatus | undefined {
    if (name === "delta") {
      this.history.addDelta(JSON.parse(data) as Delta, Date.now());
      return undefined;
    }
    if (name === "done") return (JSON.parse(data) as { status: RunStatus }).status;
    // Without the missing event, no later one could be added: the stream is read again from there.
    if (!this.history.add(parseJson(data) as unknown as RunRecord)) throw new Error("an event is missing");
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
