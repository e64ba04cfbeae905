// Entries that stay while something else is shown, such as a half-written answer: until the tab is closed or loaded again.
import { useState } from "react";

const entries = new Map<string, unknown>();

/** The value kept under a key, or else a first value; a way to keep another one; and one to forget it. */
export function useKept<Value>(key: string, start: () => Value) {
  const [value, setValue] = useState(() => (entries.has(key) ? (entries.get(key) as Value) : start()));
  const keep = (next: Value | ((before: Value) => Value)) => {
    const before = entries.has(key) ? (entries.get(key) as Value) : value;
    const kept = next instanceof Function ? next(before) : next;
    entries.set(key, kept);
    setValue(kept);
  };
  const forget = () => void entries.delete(key);
  return [value, keep, forget] as const;
}
