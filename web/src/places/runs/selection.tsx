// What can be done with the runs that are selected in the table.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useMay } from "../../api/caller";
import { api, read, type Schemas } from "../../api/client";
import { isFinal, type RunStatus } from "../../run/record";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { ConfirmDialog } from "../../ui/dialog";

type RunItem = Schemas["RunItem"];
type Command = "cancel" | "retry" | "delete";

function sendCommand(command: Command, id: string): Promise<unknown> {
  const params = { params: { path: { id } } };
  return command === "delete"
    ? read(api.DELETE("/api/v1/runs/{id}", params))
    : read(api.POST(`/api/v1/runs/{id}/${command}`, params));
}

/** Sends a command to several runs; the result is how many of them refused it. */
function useCommands(onSent: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async ({ command, runs }: { command: Command; runs: RunItem[] }) => {
      const sent = runs.map((run) => sendCommand(command, run.run_id));
      const results = await Promise.allSettled(sent);
      return results.filter((result) => result.status === "rejected").length;
    },
    onSettled: () => {
      onSent();
      void queries.invalidateQueries({ queryKey: ["runs"] });
    },
  });
}

/** The runs that a command can be sent to. */
function findAffected(chosen: RunItem[]): Record<Command, RunItem[]> {
  const hasEnded = (run: RunItem) => isFinal(run.status as RunStatus);
  return {
    cancel: chosen.filter((run) => !hasEnded(run)),
    retry: chosen.filter((run) => hasEnded(run) && run.status !== "succeeded"),
    delete: chosen.filter(hasEnded),
  };
}

/** The question before something is done with several runs. */
function questionFor(command: Command, count: number) {
  switch (command) {
    case "cancel":
      return {
        title: t.runs.confirmCancel(count),
        help: t.runs.confirmCancelHelp,
        confirm: t.runs.confirmCancelDo,
        keep: t.runs.keep,
      };
    case "retry":
      return {
        title: t.runs.confirmRetry(count),
        help: t.runs.confirmRetryHelp,
        confirm: t.runs.retrySelected,
        isHarmless: true,
      };
    case "delete":
      return {
        title: t.runs.confirmDelete(count),
        help: t.runs.confirmDeleteHelp,
        confirm: t.runs.confirmDeleteDo,
      };
  }
}

/** How many runs are retried without a question: each costs what it costs. */
const MAX_UNASKED_RETRIES = 1;

type SelectionProps = { items: RunItem[]; selected: ReadonlySet<string>; onClear: () => void };

export function Selection({ items, selected, onClear }: SelectionProps) {
  const [asked, setAsked] = useState<Command>();
  const send = useCommands(onClear);
  const chosen = items.filter((run) => selected.has(run.run_id));
  const affected = findAffected(chosen);
  const sent = send.variables?.runs.length ?? 0;
  const mayRun = useMay("run");
  return (
    <div className="runs-selection" aria-live="polite">
      {chosen.length > 0 && (
        <>
          <span>{t.runs.selected(chosen.length)}</span>
          <CompareLink chosen={chosen} />
        </>
      )}
      {chosen.length > 0 && mayRun && (
        <>
          <Button
            look="danger"
            icon="stop"
            disabled={affected.cancel.length === 0}
            onClick={() => setAsked("cancel")}
          >
            {t.runs.cancelSelected}
          </Button>
          <Button
            icon="undo"
            disabled={affected.retry.length === 0}
            onClick={() =>
              affected.retry.length > MAX_UNASKED_RETRIES
                ? setAsked("retry")
                : send.mutate({ command: "retry", runs: affected.retry })
            }
          >
            {t.runs.retrySelected}
          </Button>
          <Button
            look="danger"
            icon="trash"
            disabled={affected.delete.length === 0}
            onClick={() => setAsked("delete")}
          >
            {t.runs.deleteSelected}
          </Button>
        </>
      )}
      {chosen.length === 0 && send.isSuccess && <span>{t.runs.done(sent - send.data, send.data)}</span>}
      {asked && (
        <ConfirmDialog
          {...questionFor(asked, affected[asked].length)}
          onConfirm={() => send.mutate({ command: asked, runs: affected[asked] })}
          onClose={() => setAsked(undefined)}
        />
      )}
    </div>
  );
}

/** Compares two runs. The earlier one is the first; the table begins with the newest. */
function CompareLink({ chosen }: { chosen: RunItem[] }) {
  const [newer, older] = chosen;
  if (!newer || !older || chosen.length !== 2) return null;
  return (
    <Link to="/runs/compare" search={{ left: older.run_id, right: newer.run_id }} className="button">
      {t.compare.action}
    </Link>
  );
}
