// Saves a workflow, after everything that is entered in its forms has been brought into its text.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { isKeyRefusal } from "../../api/client";
import { readKeyReason, subscribeToKey } from "../../api/key";
import { type Pending, useHasPending } from "../../builder/pending";
import { t } from "../../strings";
import { isConflict, type Source, saveSource } from "./use-draft";
import type { Edited, Stored } from "./use-edited";

type SaveParts = {
  workflow: string;
  edited: Edited;
  stored: Stored;
  /** Whether the workflow exists no longer, so that saving makes a new one. */
  isDeleted: boolean;
  pending: Pending;
  onSaved: (saved: Source) => void;
};

/** Why something that is entered could not be saved. */
function explainPending(pending: Pending): string {
  return t.build.notTaken(pending.readProblem() ?? t.build.notFitting);
}

export function useSave({ workflow, edited, stored, isDeleted, pending, onSaved }: SaveParts) {
  const queries = useQueryClient();
  const [failure, setFailure] = useState<{ text: string; isPending: boolean }>();
  const hasPending = useHasPending(pending);
  const isSettling = useRef(false);
  const saving = useMutation({
    mutationFn: ({ source, tag }: Stored) =>
      saveSource(workflow, source, isDeleted ? { isNew: true } : { tag }),
    onSuccess: (tag, saved) => {
      // A stored text counts as stored immediately, not only when it has been read again.
      queries.setQueryData<Stored>(["workflows", workflow, "source"], { source: saved.source, tag });
      edited.finishSave(saved, tag);
      onSaved(saved.source);
      void queries.invalidateQueries({ queryKey: ["workflows"] });
    },
    onError: (error) => {
      // Theirs is read, to compare it, or to learn that the workflow was deleted.
      if (isConflict(error)) void queries.invalidateQueries({ queryKey: ["workflows", workflow] });
    },
  });
  const { error, reset } = saving;
  useEffect(() => {
    // The refusal was about another key.
    const forget = () => {
      if (readKeyReason() === undefined && isKeyRefusal(error)) reset();
    };
    return subscribeToKey(forget);
  }, [error, reset]);
  const save = async () => {
    if (saving.isPending || isSettling.current) return false;
    isSettling.current = true;
    const isSettled = await pending.settle();
    isSettling.current = false;
    setFailure(isSettled ? undefined : { text: explainPending(pending), isPending: true });
    const newest = edited.readChanged() ?? (isDeleted ? stored : undefined);
    if (!isSettled) return false;
    if (!newest) return true;
    return saving.mutateAsync(newest).then(
      () => true,
      () => false,
    );
  };
  const keep = async () => {
    const isSettled = await pending.settle();
    const isKept = edited.keep();
    if (!isKept) setFailure({ text: t.workflow.noRoom, isPending: false });
    else setFailure(isSettled ? undefined : { text: explainPending(pending), isPending: true });
    return isKept && isSettled;
  };
  return {
    /** Saves the changes; false if they could not be saved. */
    save,
    /** Keeps the changes in this browser; false if something could not be kept. */
    keep,
    /** Saves over the version that someone else stored. */
    saveOver: () => saving.mutate({ source: edited.source, tag: stored.tag }),
    /** Continues with the version that another user stored; undo restores the other text. */
    takeTheirs: () => {
      saving.reset();
      edited.discard();
    },
    isPending: saving.isPending,
    error: saving.error,
    /** Why the changes were neither saved nor kept. */
    failure: failure && (hasPending || !failure.isPending) ? failure.text : undefined,
  };
}
