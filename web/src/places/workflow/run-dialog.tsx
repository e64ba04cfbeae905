// Starts a run with a form for the inputs that the workflow declares.
import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, useState } from "react";
import { attemptHeader } from "../../api/attempt";
import { api, read, type Schemas } from "../../api/client";
import type { Json } from "../../api/json";
import { t } from "../../strings";
import { Dialog } from "../../ui/dialog";
import { ErrorBox, Problem } from "../../ui/problem";
import {
  type Entries,
  type Field,
  readEntries,
  SchemaFields,
  startEntries,
  WHOLE,
} from "../../ui/schema-form";
import { RunCost } from "../cost/run-cost";

type Workflow = Schemas["WorkflowInfo"];
type Input = Schemas["InputInfo"];

type RunDialogProps = {
  workflow: Workflow;
  isUnsaved: boolean;
  onStep: (path: string) => void;
  onClose: () => void;
};

export function RunDialog({ workflow, isUnsaved, onStep, onClose }: RunDialogProps) {
  const navigate = useNavigate();
  const inputs = workflow.inputs.length === 0 && isConversation(workflow) ? [MESSAGE] : workflow.inputs;
  const fields = inputs.map((input) => toField(input, workflow.format));
  const [entries, setEntries] = useState(() => startEntries(fields));
  const [isInvalid, setIsInvalid] = useState(false);
  const start = useMutation({
    mutationFn: (inputs: Json) => {
      const body = { workflow: workflow.id, inputs: inputs as never };
      return read(api.POST("/api/v1/runs", { body, headers: attemptHeader() }));
    },
    onSuccess: (run) =>
      void navigate({ to: "/runs/$run", params: { run: (run as { run_id: string }).run_id } }),
  });
  const given = tryRead(fields, entries);
  const send = () => {
    try {
      start.mutate(fields.length === 0 ? {} : readEntries(fields, entries));
      setIsInvalid(false);
    } catch {
      setIsInvalid(true);
    }
  };
  const onKeyDown = (event: KeyboardEvent<HTMLFormElement>) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.stopPropagation();
    event.currentTarget.requestSubmit();
  };
  return (
    <Dialog label={t.workflow.runTitle(workflow.name || workflow.id)} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          send();
        }}
        onKeyDown={onKeyDown}
      >
        <h2>{t.workflow.runTitle(workflow.name || workflow.id)}</h2>
        {isUnsaved && <Problem severity="warning">{t.workflow.unsavedRun}</Problem>}
        {fields.length === 0 && <p className="soft">{t.workflow.noInputs}</p>}
        <SchemaFields fields={fields} entries={entries} onChange={setEntries} isFirstFocused />
        {isInvalid && <Problem>{t.answer.invalid}</Problem>}
        <RunCost request={{ workflow: workflow.id, ...(given && { inputs: given }) }} onStep={onStep} />
        {start.error && <ErrorBox error={start.error} />}
        <div className="dialog-actions">
          <button type="button" className="button" onClick={onClose}>
            {t.cancel}
          </button>
          <button type="submit" className="button" data-look="main" disabled={start.isPending}>
            {t.workflow.start}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** The inputs as far as they are entered; undefined while one is not valid. */
function tryRead(fields: Field[], entries: Entries): Json | undefined {
  try {
    const entered = fields.filter((field) => (entries[field.name] ?? "") !== "");
    return entered.length === 0 ? undefined : readEntries(entered, entries);
  } catch {
    return undefined;
  }
}

/** Graphs and agents declare no inputs: a run begins with a message. */
const MESSAGE: Input = { name: "message", kind: "text", required: true };

function isConversation(workflow: Workflow): boolean {
  return workflow.format === "graph" || workflow.format === "agent";
}

const KINDS: Record<string, Field["kind"]> = {
  text: "long",
  number: "number",
  boolean: "boolean",
  option: "choice",
  list: "json",
  file: "json",
};

/** The field of an input. The input of a step list is any value; people mostly enter text. */
function toField(input: Input, format: string): Field {
  const isWhole = format === "steps" && input.name === "input";
  return {
    name: isWhole ? WHOLE : input.name,
    label: input.name,
    help: input.description ?? undefined,
    kind: KINDS[input.kind] ?? "long",
    options: input.options ?? [],
    isRequired: input.required || isWhole,
    start: "",
  };
}
