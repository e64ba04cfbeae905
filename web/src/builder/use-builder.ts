// The parts of a definition while it is edited, and changes of them.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { ApiError } from "../api/client";
import { t } from "../strings";
import { applyEdits, type Edit, type Inspection, inspect, type Source } from "./definition";
import { EditQueue, type Outcome } from "./edit-queue";
import { hasSteps, keepSteps } from "./known-steps";
import { usePending } from "./pending";
import { changesParts, rebaseEdits } from "./rebase";

/** The parts are read again after this time without a change. */
const INSPECT_DELAY_MS = 120;
/** Answers after which the same request can succeed: without a key, too slow, too many. */
const PASSING = [401, 408, 429];

/** The changes that the server could neither make nor refuse. */
export type KeptChanges = { retry: () => void; discard: () => void };

export type Builder = {
  inspection: Inspection | undefined;
  /** Whether its steps are those of an earlier text, because this one has errors. */
  hasOldSteps: boolean;
  /** Why the parts are not known, and how they are asked for again. */
  unknown: { error: Error; retry: () => void } | undefined;
  /** Applies changes one after another. */
  edit: (edits: Edit[]) => Promise<Outcome>;
  /** What the last change failed with. */
  error: Error | undefined;
  kept: KeptChanges | undefined;
  /** How often kept changes were discarded: fields then show the definition again. */
  discards: number;
  dismiss: () => void;
};

type OnEdit = (file: string, text: string) => void;

/** Why the server refused a change; undefined if the same change can succeed later. */
function whyRefused(error: unknown): string | undefined {
  const isRefusal = error instanceof ApiError && error.status < 500 && !PASSING.includes(error.status);
  return isRefusal ? error.message : undefined;
}

function explainKept(error: unknown): string {
  return error instanceof ApiError ? t.build.notMade(error.message, error.code) : t.build.notReached;
}

function queryKeyOf(source: Source, format: string | undefined) {
  return ["inspection", format, source] as const;
}

export function useBuilder(source: Source, format: string | undefined, onEdit: OnEdit): Builder {
  return { ...useInspection(source, format), ...useEdits(source, format, onEdit) };
}

function useInspection(source: Source, format: string | undefined) {
  const queries = useQueryClient();
  const [settled, setSettled] = useState(source);
  useEffect(() => {
    // What a change has brought along is shown immediately.
    const isKnown = queries.getQueryData(queryKeyOf(source, format)) !== undefined;
    const timer = setTimeout(() => setSettled(source), isKnown ? 0 : INSPECT_DELAY_MS);
    return () => clearTimeout(timer);
  }, [source, format, queries]);
  const { data, error, isFetching, refetch } = useQuery({
    queryKey: queryKeyOf(settled, format),
    placeholderData: (before) => before,
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: () => inspect(settled, format),
  });
  const unknown = error && !isFetching ? { error, retry: () => void refetch() } : undefined;
  const compiled = useRef<Inspection>(undefined);
  if (data && hasSteps(data)) compiled.current = data;
  const last = compiled.current;
  const inspection = useMemo(
    () => (data && last && !hasSteps(data) ? { ...data, parts: keepSteps(data.parts, last.parts) } : data),
    [data, last],
  );
  return { inspection, hasOldSteps: inspection !== data, unknown };
}

function useEdits(source: Source, format: string | undefined, onEdit: OnEdit) {
  const queries = useQueryClient();
  const pending = usePending();
  const [error, setError] = useState<Error>();
  const [isStopped, setIsStopped] = useState(false);
  const [discards, setDiscards] = useState(0);
  const latest = useRef(source);
  const drawn = useRef(source);
  // A change is newer than a source that was drawn before it, and is drawn again.
  if (drawn.current !== source) latest.current = source;
  drawn.current = source;
  const onText = useRef(onEdit);
  onText.current = onEdit;
  const [{ queue, discard }] = useState(() => {
    const apply = async (edits: Edit[]) => {
      for (;;) {
        const before = latest.current;
        const edited = await applyEdits(before, format, edits);
        // If the text has changed meanwhile, the change is made again.
        if (latest.current.files[before.entry] !== before.files[before.entry]) continue;
        const after = { ...before, files: { ...before.files, [before.entry]: edited.text } };
        queries.setQueryData(queryKeyOf(after, format), edited.inspection);
        latest.current = after;
        onText.current(before.entry, edited.text);
        const partsBefore = queries.getQueryData<Inspection>(queryKeyOf(before, format))?.parts;
        const rebase = (later: readonly Edit[]) =>
          partsBefore && edits.some(changesParts)
            ? rebaseEdits(later, partsBefore, edited.inspection.parts)
            : [...later];
        return { part: edited.part ?? undefined, rebase };
      }
    };
    const discard = () => {
      queue.discard();
      setDiscards((before) => before + 1);
    };
    const queue: EditQueue = new EditQueue({
      apply,
      whyRefused,
      onChange: (failure) => {
        if (queue.isEmpty) pending.remove(queue);
        else pending.add(queue, () => queue.run(), discard);
        const isKept = failure !== undefined && whyRefused(failure.error) === undefined;
        pending.noteProblem(queue, isKept ? explainKept(failure.error) : undefined);
        setIsStopped(isKept);
        if (failure) setError(failure.error as Error);
        else if (queue.isEmpty) setError(undefined);
      },
    });
    return { queue, discard };
  });
  const edit = useCallback((edits: Edit[]) => queue.push(edits), [queue]);
  const dismiss = useCallback(() => setError(undefined), []);
  const kept = isStopped ? { retry: () => void queue.run(), discard } : undefined;
  return { edit, error, kept, discards, dismiss };
}
