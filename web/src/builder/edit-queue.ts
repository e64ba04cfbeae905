// Changes of a definition, one after another. What failed without a refusal is kept, and asked for again first, or discarded.
import { t } from "../strings";
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

/** A change that was made. */
export type Applied = {
  /** The part that was added or moved. */
  part: Path | undefined;
  /** The edits of a later change in the definition as it is now; undefined if a part that they name is gone. */
  rebase: (edits: readonly Edit[]) => Edit[] | undefined;
};

type Waiting = { edits: Edit[]; resolve: (outcome: Outcome) => void };

type QueueParts = {
  /** Makes a change. */
  apply: (edits: Edit[]) => Promise<Applied>;
  /** Why the server refused a change; undefined if the same change can succeed later. */
  whyRefused: (error: unknown) => string | undefined;
  /** Called when the queue is empty, or no longer, and when a change has failed. */
  onChange: (failure: { error: unknown } | undefined) => void;
};

export class EditQueue {
  private waiting: Waiting[] = [];
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
    this.running ??= this.work();
    return this.running;
  }

  /** Gives up the changes that are kept. One that is being made goes on. */
  discard(): void {
    if (this.running) return;
    this.waiting.length = 0;
    this.parts.onChange(undefined);
  }

  private async work(): Promise<boolean> {
    // So that `running` is set before it is reset. The reset follows the last look at what waits: nothing comes between.
    await undefined;
    try {
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
    } finally {
      this.running = undefined;
    }
  }

  private async perform({ edits, resolve }: Waiting): Promise<{ error: unknown } | undefined> {
    try {
      const { part, rebase } = await this.parts.apply(edits);
      this.rebaseWaiting(rebase);
      resolve({ state: "done", part });
      return undefined;
    } catch (error) {
      const why = this.parts.whyRefused(error);
      if (why !== undefined) resolve({ state: "refused", why });
      return { error };
    }
  }

  /** Adapts the changes behind the first one, which was made, to the definition as it is now. */
  private rebaseWaiting(rebase: Applied["rebase"]): void {
    const [first, ...later] = this.waiting;
    const kept = later.flatMap(({ edits, resolve }) => {
      const rebased = rebase(edits);
      if (rebased) return [{ edits: rebased, resolve }];
      resolve({ state: "refused", why: t.build.partGone });
      return [];
    });
    this.waiting = first ? [first, ...kept] : kept;
  }
}
