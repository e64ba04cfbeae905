// The parts of a definition while it is edited, and changes of them.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useRef, useState } from "react";
import { ApiError } from "../api/client";
import { t } from "../strings";
import { applyEdits, type Edit, type Inspection, inspect, type Source } from "./definition";
import { EditQueue, type Outcome } from "./edit-queue";
import { usePending } from "./pending";

/** The parts are read again after this time without a change. */
const INSPECT_DELAY_MS = 120;
/** Answers after which the same request can succeed: without a key, too slow, too many. */
const PASSING = [401, 408, 429];

export type Builder = {
  inspection: Inspection | undefined;
  /** Applies changes one after another. */
  edit: (edits: Edit[]) => Promise<Outcome>;
  /** Why the last change could not be made. */
  problem: string | undefined;
  /** Makes the changes again that were kept because the server could not be asked; undefined if there are none. */
  retry: (() => void) | undefined;
  dismiss: () => void;
};

/** Why the server refused a change; undefined if it could not be asked. */
function whyRefused(error: unknown): string | undefined {
  const isRefusal = error instanceof ApiError && error.status < 500 && !PASSING.includes(error.status);
  return isRefusal ? error.message : undefined;
}

function queryKeyOf(source: Source, format: string | undefined) {
  return ["inspection", format, source] as const;
}

export function useBuilder(
  source: Source,
  format: string | undefined,
  onEdit: (file: string, text: string) => void,
): Builder {
  const queries = useQueryClient();
  const [settled, setSettled] = useState(source);
  const [problem, setProblem] = useState<string>();
  const latest = useRef(source);
  const drawn = useRef(source);
  // A change is newer than a source that was drawn before it, and is drawn again.
  if (drawn.current !== source) latest.current = source;
  drawn.current = source;
  useEffect(() => {
    // What a change has brought along is shown immediately.
    const isKnown = queries.getQueryData(queryKeyOf(source, format)) !== undefined;
    const timer = setTimeout(() => setSettled(source), isKnown ? 0 : INSPECT_DELAY_MS);
    return () => clearTimeout(timer);
  }, [source, format, queries]);
  const { data } = useQuery({
    queryKey: queryKeyOf(settled, format),
    placeholderData: (before) => before,
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: () => inspect(settled, format),
  });
  const pending = usePending();
  const [isStopped, setIsStopped] = useState(false);
  const onText = useRef(onEdit);
  onText.current = onEdit;
  const [queue] = useState(() => {
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
        return edited.part ?? undefined;
      }
    };
    const made: EditQueue = new EditQueue({
      apply,
      whyRefused,
      onChange: (failure) => {
        if (made.isEmpty) pending.remove(made);
        else pending.add(made, () => made.run());
        const isUnreached = failure !== undefined && whyRefused(failure.error) === undefined;
        pending.noteProblem(made, isUnreached ? t.build.notReached : undefined);
        setIsStopped(isUnreached);
        if (failure) setProblem(whyRefused(failure.error) ?? t.errors.unreachable);
        else if (made.isEmpty) setProblem(undefined);
      },
    });
    return made;
  });
  const edit = useCallback((edits: Edit[]) => queue.push(edits), [queue]);
  const dismiss = useCallback(() => setProblem(undefined), []);
  return { inspection: data, edit, problem, retry: isStopped ? () => void queue.run() : undefined, dismiss };
}
