// Texts that are entered in the fields of a form, and how they get into the definition.
import { useEffect, useRef, useState } from "react";
import type { Json } from "../api/json";
import { t } from "../strings";
import { useForm } from "./context";
import { DONE, type Outcome } from "./edit-queue";
import type { Path } from "./path";
import { usePending } from "./pending";

/** A text is stored this long after the last key. */
const STORE_DELAY_MS = 400;

type Sent = { text: string; isStored: Promise<boolean> };

/** A text that is stored a moment after the last key, or when the field is left. `label` names its field in problems. */
export function useEntry(value: string, store: (text: string) => Outcome | Promise<Outcome>, label?: string) {
  const [text, setText] = useState(value);
  const [refusal, setRefusal] = useState<string>();
  const pending = usePending();
  const [owner] = useState(() => ({}));
  const isDirty = useRef(false);
  const sent = useRef<Sent | undefined>(undefined);
  const latest = useRef({ text, store });
  latest.current = { text: isDirty.current ? latest.current.text : text, store };
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  // The last stored text, until the definition has it. Some formats keep no blanks around a text; the field does.
  const awaited = useRef<string | undefined>(undefined);
  useEffect(() => {
    const own = awaited.current;
    awaited.current = undefined;
    if (!isDirty.current && own?.trim() !== value.trim()) setText(value);
  }, [value]);
  const send = async (stored: string) => {
    awaited.current = stored;
    const outcome = await latest.current.store(stored);
    sent.current = undefined;
    const isRefused = outcome.state === "refused";
    if (isRefused) awaited.current = undefined;
    setRefusal(isRefused ? outcome.why : undefined);
    pending.noteProblem(
      owner,
      isRefused ? (label ? t.build.wrongEntry(label, outcome.why) : outcome.why) : undefined,
    );
    if (isRefused) return false;
    if (latest.current.text === stored) {
      isDirty.current = false;
      pending.remove(owner);
    }
    return true;
  };
  const flush = (): Promise<boolean> => {
    clearTimeout(timer.current);
    if (!isDirty.current) return Promise.resolve(true);
    const { text } = latest.current;
    if (sent.current?.text !== text) sent.current = { text, isStored: send(text) };
    return sent.current.isStored;
  };
  const flushLast = useRef(flush);
  flushLast.current = flush;
  const discard = () => {
    clearTimeout(timer.current);
    isDirty.current = false;
    awaited.current = undefined;
    setText(value);
    setRefusal(undefined);
    pending.remove(owner);
  };
  const discardLast = useRef(discard);
  discardLast.current = discard;
  // A field that disappears stores the typed text.
  useEffect(() => () => void flushLast.current().then(() => pending.remove(owner)), [pending, owner]);
  const change = (next: string) => {
    isDirty.current = true;
    latest.current.text = next;
    pending.add(
      owner,
      () => flushLast.current(),
      () => discardLast.current(),
    );
    setText(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => void flushLast.current(), STORE_DELAY_MS);
  };
  return { text, refusal, change, flush: () => void flush() };
}

/** Stores a value at a path; an optional value without content is removed. */
export function useStore(field: { path: Path; value: Json | undefined; isRequired?: boolean | undefined }) {
  const { path, value, isRequired } = field;
  const { edit } = useForm();
  return (next: Json | undefined): Outcome | Promise<Outcome> => {
    if (next === undefined) return value === undefined ? DONE : edit([{ do: "remove", path }]);
    if (next === "" && value === undefined && !isRequired) return DONE;
    return edit([{ do: "set", path, value: next }]);
  };
}
