// A notice that stays for a moment wherever the viewer goes, with one action, such as to take a deletion back.
import { useSyncExternalStore } from "react";

export type Notice = { text: string; action: string; run: () => void };

/** So long a notice is shown. */
const SHOWN_MS = 20_000;

const listeners = new Set<() => void>();
let shown: Notice | undefined;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Shows a notice instead of the one before, or none. */
export function showNotice(notice: Notice | undefined): void {
  clearTimeout(timer);
  shown = notice;
  if (notice) timer = setTimeout(() => showNotice(undefined), SHOWN_MS);
  for (const listener of listeners) listener();
}

export function useNotice(): Notice | undefined {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => shown,
  );
}
