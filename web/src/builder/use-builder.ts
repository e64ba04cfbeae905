// The parts of a definition while it is edited, and changes of them.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useRef, useState } from "react";
import { ApiError } from "../api/client";
import { t } from "../strings";
import { applyEdits, type Edit, type Inspection, inspect, type Path, type Source } from "./definition";

/** The parts are read again after this time without a change. */
const INSPECT_DELAY_MS = 120;
/** A change is made again if the text has changed meanwhile, at most this often. */
const MAX_TRIES = 5;

export type Builder = {
  inspection: Inspection | undefined;
  /** Applies changes one after another; returns the part that was added or moved, or undefined if it failed. */
  edit: (edits: Edit[]) => Promise<Path | undefined>;
  /** Why the last change could not be made. */
  problem: string | undefined;
  dismiss: () => void;
};

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
  latest.current = source;
  useEffect(() => {
    // What a change has brought along is shown at once.
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
  const queue = useRef<Promise<unknown>>(Promise.resolve());
  const edit = useCallback(
    (edits: Edit[]) => {
      const work = async (): Promise<Path | undefined> => {
        for (let tries = 0; tries < MAX_TRIES; tries += 1) {
          const before = latest.current;
          const edited = await applyEdits(before, format, edits);
          if (latest.current.files[before.entry] !== before.files[before.entry]) continue;
          const after = { ...before, files: { ...before.files, [before.entry]: edited.text } };
          queries.setQueryData(queryKeyOf(after, format), edited.inspection);
          latest.current = after;
          onEdit(before.entry, edited.text);
          setProblem(undefined);
          return edited.part ?? undefined;
        }
        return undefined;
      };
      const done = queue.current.then(work).catch((error: unknown) => {
        setProblem(error instanceof ApiError ? error.message : t.errors.unreachable);
        return undefined;
      });
      queue.current = done;
      return done;
    },
    [format, onEdit, queries],
  );
  const dismiss = useCallback(() => setProblem(undefined), []);
  return { inspection: data, edit, problem, dismiss };
}
