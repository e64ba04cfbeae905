// Unsaved changes outlive the tab: the page keeps them in this browser by itself, and offers them when the workflow is
// opened again.
import { useEffect, useState } from "react";
import { type Draft, readDraft, removeDraft, storeDraft } from "./kept-draft";
import { areEqual, type Edited, type Stored } from "./use-edited";

/** Changes are kept this long after the last one. */
const KEEP_DELAY_MS = 500;

export type Recovery = {
  /** When the changes that are offered were kept, in milliseconds since the Unix epoch; undefined if there are none. */
  at: number | undefined;
  restore: () => void;
  dismiss: () => void;
  /** The viewer leaves, and wants what is not saved to be lost. */
  forget: () => void;
};

export function useRecovery(workflow: string, edited: Edited, stored: Stored, isReadOnly: boolean): Recovery {
  const [offered, setOffered] = useState<Draft | undefined>(() => {
    if (isReadOnly) return undefined;
    const found = readDraft(workflow, "unsaved");
    const isNew = found && !areEqual(found.source, edited.source) && !areEqual(found.source, stored.source);
    return isNew ? found : undefined;
  });
  const { changed, isUnkept } = edited;
  const hasOffer = offered !== undefined;
  useEffect(() => {
    if (isReadOnly) return;
    if (!changed || !isUnkept) {
      if (!hasOffer) removeDraft(workflow, "unsaved");
      return;
    }
    const timer = setTimeout(() => storeDraft(workflow, changed, "unsaved"), KEEP_DELAY_MS);
    return () => clearTimeout(timer);
  }, [workflow, changed, isUnkept, isReadOnly, hasOffer]);
  const forget = () => {
    setOffered(undefined);
    removeDraft(workflow, "unsaved");
  };
  return {
    at: offered?.at,
    restore: () => {
      if (offered) edited.replace(offered.source);
      setOffered(undefined);
    },
    dismiss: forget,
    forget,
  };
}
