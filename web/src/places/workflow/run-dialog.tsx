// Starts a run with a form for the inputs that the workflow declares. With unsaved changes it shows which version runs.
// A dialog starts one run: a second one needs the dialog to be opened again.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, useRef } from "react";
import { attemptHeader } from "../../api/attempt";
import { api, readExactly, readStarted, type Schemas } from "../../api/client";
import type { Json } from "../../api/json";
import { runsQuery, workflowQuery } from "../../api/queries";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { useKept } from "../../ui/kept";
import { NoModel } from "../../ui/no-model";
import { ErrorBox, Problem } from "../../ui/problem";
import { SchemaFields } from "../../ui/schema-fields";
import { type Entries, type Field, startEntries } from "../../ui/schema-form";
import { useInvalidEntry } from "../../ui/use-invalid-entry";
import { useEstimate } from "../cost/cost-plan";
import { RunCost } from "../cost/run-cost";
import { listInputFields, namedEntries, readInputs, tryReadInputs } from "./input-fields";

type Workflow = Schemas["WorkflowInfo"];

/** The changes that are not saved, if there are any. */
export type UnsavedChanges = {
  /** Whether the changed definition has errors, so that it cannot run. */
  isRefused: boolean;
  /** Saves them; false if that was not possible. */
  save: () => Promise<boolean>;
  /** Keeps them in this browser; false if that was not possible. */
  keep: () => Promise<boolean>;
};

type RunDialogProps = {
  workflow: Workflow;
  unsaved: UnsavedChanges | undefined;
  onStep: (path: string) => void;
  onClose: () => void;
};

export function RunDialog({ workflow, unsaved, onStep, onClose }: RunDialogProps) {
  const fields = listInputFields(workflow);
  const [entries, setEntries, forget] = useKept(`run ${workflow.id}`, () => startEntries(fields));
  const { invalid, change, attempt } = useInvalidEntry(setEntries);
  const start = useStart(workflow, unsaved, fields, forget);
  const title = t.workflow.runTitle(workflow.name || workflow.id);
  const send = (saves: boolean) => attempt(() => start.send({ inputs: readInputs(fields, entries), saves }));
  const savesFirst = unsaved !== undefined && !unsaved.isRefused;
  const given = tryReadInputs(fields, entries);
  const request = { workflow: workflow.id, ...(given && { inputs: given }) };
  const needsModel = (useEstimate(request).data?.models.length ?? 0) > 0;
  return (
    <Dialog label={title} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (unsaved === undefined || savesFirst) send(savesFirst);
        }}
        onKeyDown={submitOnEnter}
      >
        <h2>{title}</h2>
        {start.run !== undefined ? (
          <Started run={start.run} />
        ) : (
          <>
            {unsaved && (
              <Problem severity="warning">
                {unsaved.isRefused ? t.workflow.unsavedRefused : t.workflow.unsavedRun}
              </Problem>
            )}
            {start.hasNewInputs && <Problem severity="warning">{t.workflow.newInputs}</Problem>}
            {fields.length === 0 && <p className="soft">{t.workflow.noInputs}</p>}
            <LastInputs workflow={workflow.id} fields={fields} onUse={setEntries} />
            <SchemaFields
              fields={fields}
              entries={entries}
              onChange={change}
              isFirstFocused
              invalid={invalid}
            />
            {needsModel && <NoModel />}
            <RunCost request={request} onStep={onStep} />
            {start.error && <ErrorBox error={start.error} />}
          </>
        )}
        <RunButtons
          hasStarted={start.run !== undefined}
          isPending={start.isPending}
          savesFirst={savesFirst}
          hasUnsaved={unsaved !== undefined}
          onStartSaved={() => send(false)}
          onClose={onClose}
        />
      </form>
    </Dialog>
  );
}

/** Ctrl+Enter submits, also from a text of several lines. */
function submitOnEnter(event: KeyboardEvent<HTMLFormElement>) {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.stopPropagation();
  event.currentTarget.requestSubmit();
}

type ButtonsProps = {
  hasStarted: boolean;
  isPending: boolean;
  savesFirst: boolean;
  hasUnsaved: boolean;
  onStartSaved: () => void;
  onClose: () => void;
};

function RunButtons({ hasStarted, isPending, savesFirst, hasUnsaved, onStartSaved, onClose }: ButtonsProps) {
  return (
    <div className="dialog-actions">
      <Button onClick={onClose}>{hasStarted ? t.close : t.cancel}</Button>
      {!hasStarted && hasUnsaved && (
        <Button disabled={isPending} onClick={onStartSaved}>
          {t.workflow.startSaved}
        </Button>
      )}
      {!hasStarted && (!hasUnsaved || savesFirst) && (
        <Button look="main" type="submit" disabled={isPending}>
          {savesFirst ? t.workflow.saveAndRun : t.workflow.start}
        </Button>
      )}
    </div>
  );
}

type StartRequest = { inputs: unknown; saves: boolean };

/** Starts a run and opens it. Changes that are not saved stay in this browser, so that opening the run loses nothing. */
function useStart(
  workflow: Workflow,
  unsaved: UnsavedChanges | undefined,
  fields: readonly Field[],
  onStarted: () => void,
) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const start = useMutation({
    mutationFn: async ({ inputs, saves }: StartRequest) => {
      if (saves) {
        if (!(await unsaved?.save())) return { run: undefined, hasNewInputs: false };
        const now = await queries.fetchQuery({ ...workflowQuery(workflow.id), staleTime: 0 });
        const isSame = JSON.stringify(listInputFields(now)) === JSON.stringify(fields);
        if (!isSame) return { run: undefined, hasNewInputs: true };
      }
      const body = { workflow: workflow.id, inputs: inputs as never };
      const run = await readStarted(api.POST("/api/v1/runs", { body, headers: attemptHeader() }));
      return { run: run.run_id, hasNewInputs: false };
    },
    onSuccess: async ({ run }, { saves }) => {
      if (run === undefined) return;
      onStarted();
      const isKept = saves || unsaved === undefined || (await unsaved.keep());
      if (isKept) void navigate({ to: "/runs/$run", params: { run }, ignoreBlocker: true });
    },
  });
  // A second click arrives before the first one is drawn.
  const isSending = useRef(false);
  const send = (request: StartRequest) => {
    if (isSending.current || start.data?.run !== undefined) return;
    isSending.current = true;
    start.mutate(request, {
      onSettled: (outcome) => {
        isSending.current = outcome?.run !== undefined;
      },
    });
  };
  return {
    send,
    isPending: start.isPending,
    error: start.error,
    run: start.data?.run,
    hasNewInputs: start.data?.hasNewInputs ?? false,
  };
}

/** The run has started, but the page was not left, because that would lose changes. */
function Started({ run }: { run: string }) {
  return (
    <p role="status">
      {t.workflow.started}{" "}
      <Link to="/runs/$run" params={{ run }} target="_blank">
        {t.inbox.open}
      </Link>
    </p>
  );
}

type LastInputsProps = {
  workflow: string;
  fields: readonly Field[];
  onUse: (entries: Entries) => void;
};

/** Takes over what the last run was started with. */
function LastInputs({ workflow, fields, onUse }: LastInputsProps) {
  const last = useQuery(runsQuery({ workflow, limit: 1 })).data?.items[0];
  const take = useMutation({
    mutationFn: async (run: string) => {
      const before = await readExactly(`api/v1/runs/${encodeURIComponent(run)}/variables?at=1`);
      const { variables } = before as { variables: { [name: string]: Json } };
      return namedEntries(fields, variables);
    },
    onSuccess: onUse,
  });
  if (fields.length === 0 || !last) return null;
  return (
    <p>
      <button
        type="button"
        className="text-button"
        disabled={take.isPending}
        onClick={() => take.mutate(last.run_id)}
      >
        {t.workflow.lastInputs}
      </button>
      {take.error && <ErrorBox error={take.error} />}
    </p>
  );
}
