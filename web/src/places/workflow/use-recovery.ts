// Unsaved changes outlive the tab: the page keeps them in this browser by itself, and offers them when the workflow is
// opened again.
import { type RefObject, useEffect, useRef, useState } from "react";
import { collectUnsaved, removeOwnUnsaved, removeUnsaved, storeUnsaved, type TabDraft } from "./kept-draft";
import { areEqual, type Edited, type Stored } from "./use-edited";

/** Changes are kept this long after the last one. */
const KEEP_DELAY_MS = 500;

export type Recovery = {
  /** When the changes that are offered were kept, in milliseconds since the Unix epoch; undefined if there are none. */
  at: number | undefined;
  restore: () => void;
  dismiss: () => void;
  /** The viewer leaves, and discards unsaved changes. */
  forget: () => void;
};

export function useRecovery(place: string, edited: Edited, stored: Stored, isReadOnly: boolean): Recovery {
  // Another tab may still show what it keeps, so that only the viewer removes it.
  const [offered, setOffered] = useState<TabDraft[]>(() => {
    if (isReadOnly) return [];
    return collectUnsaved(place).filter((draft) => {
      // A stored version, or the draft that the viewer keeps, is not lost.
      const isKept = areEqual(draft.source, stored.source) || areEqual(draft.source, edited.source);
      if (isKept) removeUnsaved(draft);
      return !isKept;
    });
  });
  // The restored text is shown in this tab, and is kept or saved with it.
  const restored = useRef<TabDraft>(undefined);
  const { changed, isUnkept } = edited;
  const hasOwnOffer = offered.some(({ isOwn }) => isOwn);
  useEffect(() => {
    if (isReadOnly) return;
    if (!changed || !isUnkept) {
      if (!hasOwnOffer) removeOwnUnsaved(place);
      removeRestored(restored);
      return;
    }
    const timer = setTimeout(() => {
      if (storeUnsaved(place, changed)) removeRestored(restored);
    }, KEEP_DELAY_MS);
    return () => clearTimeout(timer);
  }, [place, changed, isUnkept, isReadOnly, hasOwnOffer]);
  const [first, ...others] = offered;
  return {
    at: first?.at,
    restore: () => {
      if (first) edited.replace(first.source);
      restored.current = first;
      setOffered([]);
    },
    dismiss: () => {
      if (first) removeUnsaved(first);
      setOffered(others);
    },
    forget: () => {
      setOffered([]);
      removeOwnUnsaved(place);
      removeRestored(restored);
    },
  };
}

/** Forgets the text that was restored under its old name. */
function removeRestored(restored: RefObject<TabDraft | undefined>): void {
  if (restored.current) removeUnsaved(restored.current);
  restored.current = undefined;
}
