// The text of a workflow while it is edited: what differs from the stored one, a draft that this browser keeps, and
// whether leaving would lose something.
import { useCallback, useState } from "react";
import { readDraft, removeDraft, storeDraft } from "./kept-draft";
import type { Source } from "./use-draft";

/** A source with the tag of the stored version that it was made from. */
export type Stored = { source: Source; tag: string | null };

/** What the viewer has changed. */
export type Edited = {
  source: Source;
  /** The changed source; undefined if nothing differs from the stored one. */
  changed: Stored | undefined;
  /** When the draft that is shown was kept, in milliseconds since the Unix epoch. */
  draftAt: number | undefined;
  /** Whether leaving loses changes. */
  isUnkept: boolean;
  edit: (file: string, text: string) => void;
  replace: (source: Source) => void;
  /** Keeps the changes in this browser; false if it has no room. */
  keep: () => boolean;
  /** Goes back to the stored source. */
  discard: () => void;
  /** The server has stored `saved`; what was changed meanwhile stays changed. */
  finishSave: (saved: Stored, tag: string | null) => void;
};

export function useEdited(workflow: string, stored: Stored, isReadOnly: boolean): Edited {
  const [draft, setDraft] = useState(() => (isReadOnly ? undefined : readDraft(workflow)));
  const [edited, setEdited] = useState<Stored | undefined>(draft);
  const edit = useCallback(
    (file: string, text: string) =>
      setEdited((before) => {
        const base = before ?? stored;
        return { tag: base.tag, source: { ...base.source, files: { ...base.source.files, [file]: text } } };
      }),
    [stored],
  );
  const changed = edited && !areEqual(edited.source, stored.source) ? edited : undefined;
  const forget = () => {
    removeDraft(workflow);
    setDraft(undefined);
  };
  return {
    source: edited?.source ?? stored.source,
    changed,
    draftAt: draft && changed ? draft.at : undefined,
    isUnkept: changed !== undefined && !(draft && areEqual(draft.source, changed.source)),
    edit,
    replace: (source) => setEdited((before) => ({ source, tag: before?.tag ?? stored.tag })),
    keep: () => {
      if (!changed) return true;
      const kept = storeDraft(workflow, changed);
      setDraft(kept);
      return kept !== undefined;
    },
    discard: () => {
      forget();
      setEdited(undefined);
    },
    finishSave: (saved, tag) => {
      forget();
      setEdited((now) => (now === undefined || now.source === saved.source ? undefined : { ...now, tag }));
    },
  };
}

/** Whether two sources have the same texts. */
export function areEqual(one: Source, other: Source): boolean {
  const names = Object.keys(one.files);
  return (
    one.entry === other.entry &&
    names.length === Object.keys(other.files).length &&
    names.every((name) => one.files[name] === other.files[name])
  );
}
