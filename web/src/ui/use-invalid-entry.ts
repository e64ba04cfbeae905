// The entry of a form that does not fit its field.
import { useState } from "react";
import { type Entries, InvalidEntry } from "./schema-form";

/** The invalid entry of the last attempt to send a form, until an entry changes. */
export function useInvalidEntry(setEntries: (entries: Entries) => void) {
  const [invalid, setInvalid] = useState<InvalidEntry>();
  const change = (next: Entries) => {
    setInvalid(undefined);
    setEntries(next);
  };
  /** Sends the form; `send` throws an `InvalidEntry` if an entry does not fit. */
  const attempt = (send: () => void) => {
    try {
      send();
      setInvalid(undefined);
    } catch (error) {
      if (!(error instanceof InvalidEntry)) throw error;
      setInvalid(error);
    }
  };
  return { invalid, change, attempt };
}
