// Changes of a definition, one after another. What failed without a refusal is kept, and asked for again first, or discarded.
import type { Edit } from "./definition";
import type { Path } from "./path";

/** How a change ended. A kept one is made later; a refused one never. */
export type Outcome =
  | { state: "done"; part?: Path | undefined }
  | { state: "kept" }
  | { state: "refused"; why: string };

export const DONE: Outcome = { state: "done" };

export function refuse(why: string): Outcome {
  return { state: "refused", why };
}

type Waiting = { edits: Edit[]; resolve: (outcome: Outcome) => void };

type QueueParts = {
  /** Makes a change; returns the part that was added or moved. */
  apply: (edits: Edit[]) => Promise<Path | undefined>;
  /** Why the server refused a change; undefined if the same change can succeed later. */
  whyRefused: (error: unknown) => string | undefined;
  /** Called when the queue is empty, or no longer, and when a change has failed. */
  onChange: (failure: { error: unknown } | undefined) => void;
};

export class EditQueue {
  private readonly waiting: Waiting[] = [];
  private running: Promise<boolean> | undefined;

  constructor(private readonly parts: QueueParts) {}

  get isEmpty(): boolean {
    return this.waiting.length === 0;
  }

  push(edits: Edit[]): Promise<Outcome> {
    return new Promise((resolve) => {
      this.waiting.push({ edits, resolve });
      void this.run();
    });
  }

  /** Makes the changes that wait; false if one of them can only be made later. */
  run(): Promise<boolean> {
    this.running ??= this.work().finally(() => {
      this.running = undefined;
    });
    return this.running;
  }

  /** Gives up the changes that are kept. One that is being made goes on. */
  discard(): void {
    if (this.running) return;
    this.waiting.length = 0;
    this.parts.onChange(undefined);
  }

  private async work(): Promise<boolean> {
    this.parts.onChange(undefined);
    for (let first = this.waiting[0]; first; first = this.waiting[0]) {
      const failure = await this.perform(first);
      if (failure && this.parts.whyRefused(failure.error) === undefined) {
        for (const { resolve } of this.waiting) resolve({ state: "kept" });
        this.parts.onChange(failure);
        return false;
      }
      this.waiting.shift();
      this.parts.onChange(failure);
    }
    return true;
  }

  private async perform({ edits, resolve }: Waiting): Promise<{ error: unknown } | undefined> {
    try {
      resolve({ state: "done", part: await this.parts.apply(edits) });
      return undefined;
    } catch (error) {
      const why = this.parts.whyRefused(error);
      if (why !== undefined) resolve({ state: "refused", why });
      return { error };
    }
  }
}
