// Input of forms that is not in the text of the definition yet: fields that are being edited, and changes that
// the server is asked for. Saving waits for it, and leaving asks.
import { createContext, useContext, useSyncExternalStore } from "react";

type Owner = {
  /** Brings something into the text; false if that was not possible. */
  settle: () => Promise<boolean>;
  /** Gives it up. */
  discard: () => void;
};

export class Pending {
  private readonly owners = new Map<object, Owner>();
  private readonly listeners = new Set<() => void>();
  private readonly problems = new Map<object, string>();

  /** Notes that something of `owner` is not in the text yet. */
  add(owner: object, settle: Owner["settle"], discard: Owner["discard"]): void {
    const isNew = !this.owners.has(owner);
    this.owners.set(owner, { settle, discard });
    if (isNew) this.announce();
  }

  remove(owner: object): void {
    this.problems.delete(owner);
    if (this.owners.delete(owner)) this.announce();
  }

  /** Notes why something of `owner` cannot be brought into the text, or that nothing hinders it any more. */
  noteProblem(owner: object, problem: string | undefined): void {
    if (problem === undefined) this.problems.delete(owner);
    else this.problems.set(owner, problem);
  }

  /** Why something could not be brought into the text, as far as that is known. */
  readProblem(): string | undefined {
    return this.problems.values().next().value;
  }

  /** Brings everything into the text, also later input; false if something could not be brought there. */
  async settle(): Promise<boolean> {
    while (this.owners.size > 0) {
      const settled = await Promise.all([...this.owners.values()].map(({ settle }) => settle()));
      if (settled.includes(false)) return false;
    }
    return true;
  }

  /** Gives up everything that is not in the text. */
  discard(): void {
    for (const { discard } of [...this.owners.values()]) discard();
  }

  hasAny = (): boolean => this.owners.size > 0;

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  private announce(): void {
    for (const listener of this.listeners) listener();
  }
}

export const PendingScope = createContext(new Pending());
export const usePending = () => useContext(PendingScope);

/** Whether anything is pending, as it changes. */
export function useHasPending(pending: Pending): boolean {
  return useSyncExternalStore(pending.subscribe, pending.hasAny);
}
