// The text of a workflow while it is edited: what differs from the stored one, a draft that this browser keeps, and
// whether leaving would lose something.
import { useCallback, useRef, useState } from "react";
import { readDraft, removeDraft, storeDraft } from "./kept-draft";
import type { Source } from "./use-draft";

/** A source with the tag of the stored version that it was made from. */
export type Stored = { source: Source; tag: string | null };

/** What the viewer has changed. */
export type Edited = {
  source: Source;
  /** The changed source; undefined if nothing differs from the stored one. */
  changed: Stored | undefined;
  /** The tag of the stored version that the shown source was made from. */
  tag: string | null;
  /** When the draft that is shown was kept, in milliseconds since the Unix epoch. */
  draftAt: number | undefined;
  /** Whether leaving loses changes. */
  isUnkept: boolean;
  /** The changed source with all edits so far, also those that are not drawn yet. */
  readChanged: () => Stored | undefined;
  edit: (file: string, text: string) => void;
  replace: (source: Source) => void;
  /** Keeps the changes in this browser; false if it has no room. */
  keep: () => boolean;
  /** Goes back to the stored source. */
  discard: () => void;
  /** The server has stored `saved`; later changes stay. */
  finishSave: (saved: Stored, tag: string | null) => void;
};

export function useEdited(place: string, stored: Stored, isReadOnly: boolean): Edited {
  const [draft, setDraft] = useState(() => (isReadOnly ? undefined : readDraft(place)));
  const [edited, draw] = useState<Stored | undefined>(draft);
  const latest = useRef({ edited, stored });
  latest.current.stored = stored;
  const setEdited = useCallback((next: Stored | undefined) => {
    latest.current.edited = next;
    draw(next);
  }, []);
  const edit = useCallback(
    (file: string, text: string) => {
      const { tag, source } = latest.current.edited ?? latest.current.stored;
      setEdited({ tag, source: { ...source, files: { ...source.files, [file]: text } } });
    },
    [setEdited],
  );
  const changed = changesOf(edited, stored);
  const forget = () => {
    removeDraft(place);
    setDraft(undefined);
  };
  return {
    source: edited?.source ?? stored.source,
    changed,
    tag: (changed ?? stored).tag,
    draftAt: draft && changed ? draft.at : undefined,
    isUnkept: changed !== undefined && !(draft && areEqual(draft.source, changed.source)),
    readChanged: () => changesOf(latest.current.edited, latest.current.stored),
    edit,
    replace: (source) => setEdited({ source, tag: edited?.tag ?? stored.tag }),
    keep: () => {
      const newest = changesOf(latest.current.edited, latest.current.stored);
      if (!newest) return true;
      const kept = storeDraft(place, newest);
      setDraft(kept);
      return kept !== undefined;
    },
    discard: () => {
      forget();
      setEdited(undefined);
    },
    finishSave: (saved, tag) => {
      forget();
      const now = latest.current.edited;
      setEdited(now === undefined || now.source === saved.source ? undefined : { ...now, tag });
    },
  };
}

/** The edited source, if it differs from the stored one. */
function changesOf(edited: Stored | undefined, stored: Stored): Stored | undefined {
  return edited && !areEqual(edited.source, stored.source) ? edited : undefined;
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
