// Runs one step of a workflow alone, with the values that an earlier run had, or with others.
import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useContext, useState } from "react";
import { attemptHeader } from "../../api/attempt";
import { api, readExactly, readStarted, type Schemas } from "../../api/client";
import { formatJson, type Json, parseJson } from "../../api/json";
import type { Values } from "../../run/values";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { shortenId } from "../../ui/format";
import { KeepScope } from "../../ui/keep-scope";
import { ErrorBox, Problem } from "../../ui/problem";
import { SchemaFields } from "../../ui/schema-fields";
import { type Entries, type Field, InvalidEntry } from "../../ui/schema-form";
import type { UnsavedChanges } from "../workflow/run-dialog";
import { addEdited, completeInputs, type EditedStep, pickInputs, valuesOf } from "./alone-inputs";
import "./step-alone.css";

type StepAlone = Schemas["StepAlone"];

type StepAloneProps = {
  workflow: string;
  path: string;
  /** The name of the step for people. */
  name: string;
  /** The run whose values are offered: its id, or `last`. */
  run: string;
  unsaved?: UnsavedChanges | undefined;
  /** What the unsaved changes read. */
  edited?: EditedStep | undefined;
  onClose: () => void;
};

export function StepAloneDialog(props: StepAloneProps) {
  const { workflow, path, name, run, unsaved, edited, onClose } = props;
  const query = stepQuery(workflow, path, run);
  const { data, error } = useQuery(query);
  const queries = useQueryClient();
  // A step that is not saved yet cannot be found before it is.
  const save = useMutation({
    mutationFn: async () => {
      if (await unsaved?.save()) await queries.refetchQueries({ queryKey: query.queryKey });
    },
  });
  const canSave = unsaved !== undefined && !unsaved.isRefused;
  return (
    <Dialog label={t.alone.title(name)} onClose={onClose}>
      <div className="dialog-body">
        <h2>{t.alone.title(name)}</h2>
        <p className="soft">{t.alone.help}</p>
        {unsaved && (
          <Problem severity="warning">
            {unsaved.isRefused ? t.alone.unsavedRefused : t.workflow.unsavedRun}
          </Problem>
        )}
        {error && <ErrorBox error={error} />}
        {!data && !error && <p className="soft">{t.loading}</p>}
        {data?.problem && <Problem severity="warning">{data.problem}</Problem>}
        {data && !data.problem ? (
          <AloneForm {...{ workflow, path, run, unsaved, edited, onClose }} saved={data} />
        ) : (
          <div className="dialog-actions">
            <Button onClick={onClose}>{t.close}</Button>
            {canSave && (
              <Button look="main" disabled={save.isPending} onClick={() => save.mutate()}>
                {t.alone.save}
              </Button>
            )}
          </div>
        )}
      </div>
    </Dialog>
  );
}

/** What a step reads, with the values of a run. */
function stepQuery(workflow: string, path: string, run: string) {
  return queryOptions({
    queryKey: ["workflows", workflow, "step", path, run],
    // Values of a run in progress change.
    gcTime: 0,
    queryFn: async ({ signal }) => {
      const query = new URLSearchParams({ path, run });
      const step = await readExactly(
        `api/v1/workflows/${encodeURIComponent(workflow)}/step?${query}`,
        signal,
      );
      return step as unknown as StepAlone;
    },
  });
}

type AloneFormProps = Omit<StepAloneProps, "name"> & { saved: StepAlone };

function AloneForm({ workflow, path, run, saved, unsaved, edited, onClose }: AloneFormProps) {
  const step = addEdited(saved, edited);
  const navigate = useNavigate();
  const queries = useQueryClient();
  const keep = useContext(KeepScope);
  const fields = step.inputs.map(toField);
  const [entries, setEntries] = useState(() => startEntries(step));
  const [problem, setProblem] = useState<string>();
  const start = useMutation({
    mutationFn: async ({ entered, saves }: { entered: Values; saves: boolean }) => {
      let inputs: Values | undefined = pickInputs(saved, entered);
      if (saves) {
        if (!(await unsaved?.save())) return { hasChanged: false };
        const now = await queries.fetchQuery({ ...stepQuery(workflow, path, run), staleTime: 0 });
        inputs = now.problem ? undefined : completeInputs(addEdited(now, edited), step, entered);
        if (!inputs) return { hasChanged: true };
      }
      const body = { workflow, step: path, inputs: inputs as never };
      const started = await readStarted(api.POST("/api/v1/runs", { body, headers: attemptHeader() }));
      return { started: started.run_id, hasChanged: false };
    },
    onSuccess: async ({ started }) => {
      if (started === undefined) return;
      const isKept = await keep();
      onClose();
      void navigate({ to: "/runs/$run", params: { run: started }, ignoreBlocker: isKept });
    },
  });
  const savesFirst = unsaved !== undefined && !unsaved.isRefused;
  const send = (saves: boolean) => {
    try {
      start.mutate({ entered: readValues(step, fields, entries), saves });
      setProblem(undefined);
    } catch (error) {
      setProblem(error instanceof InvalidEntry ? error.message : t.answer.invalid);
    }
  };
  return (
    <form
      className="alone-form"
      onSubmit={(event) => {
        event.preventDefault();
        send(savesFirst);
      }}
    >
      <ValuesNote run={step.run} hasFields={fields.length > 0} onClear={() => setEntries({})} />
      {fields.length === 0 && <p className="soft">{t.alone.noInputs}</p>}
      {fields.some((field) => field.kind === "long") && <p className="faint">{t.alone.textOrJson}</p>}
      <SchemaFields fields={fields} entries={entries} onChange={setEntries} isFirstFocused />
      {problem && <Problem>{problem}</Problem>}
      {start.error && <ErrorBox error={start.error} />}
      {start.data?.hasChanged && <Problem severity="warning">{t.alone.changed}</Problem>}
      <div className="dialog-actions">
        <Button onClick={onClose}>{t.cancel}</Button>
        {savesFirst && (
          <Button disabled={start.isPending} onClick={() => send(false)}>
            {t.alone.startSaved}
          </Button>
        )}
        <Button look="main" icon="play" type="submit" disabled={start.isPending}>
          {savesFirst ? t.alone.saveAndStart : unsaved ? t.alone.startSaved : t.alone.start}
        </Button>
      </div>
    </form>
  );
}

type ValuesNoteProps = { run: string | null | undefined; hasFields: boolean; onClear: () => void };

/** Names the run that the values are from. */
function ValuesNote({ run, hasFields, onClear }: ValuesNoteProps) {
  if (!run) return hasFields && <p className="soft">{t.alone.noValues}</p>;
  return (
    <p className="soft">
      {t.alone.valuesOf}{" "}
      <Link to="/runs/$run" params={{ run }} className="mono">
        {shortenId(run)}
      </Link>{" "}
      <button type="button" className="text-button" onClick={onClear}>
        {t.alone.clear}
      </button>
    </p>
  );
}

const KINDS: Record<string, Field["kind"]> = { number: "number", boolean: "boolean", option: "choice" };

function toField(input: Schemas["InputInfo"]): Field {
  const kind = KINDS[input.kind] ?? "long";
  return {
    name: input.name,
    label: input.name,
    help: input.description ?? undefined,
    kind,
    options: kind === "boolean" ? [true, false] : (input.options ?? []),
    isRequired: false,
    start: "",
  };
}

function startEntries(step: StepAlone): Entries {
  const values = Object.entries(valuesOf(step));
  return Object.fromEntries(values.map(([name, value]) => [name, toEntry(step, name, value)]));
}

function toEntry(step: StepAlone, name: string, value: Json): string {
  const kind = KINDS[step.inputs.find((input) => input.name === name)?.kind ?? ""];
  if (kind !== undefined) return JSON.stringify(value);
  return typeof value === "string" ? value : formatJson(value);
}

/** The entries. A value that was not changed stays as it was; a text that looks like JSON is a value. */
function readValues(step: StepAlone, fields: Field[], entries: Entries): Values {
  const values: Values = {};
  for (const field of fields) {
    const text = entries[field.name] ?? "";
    const known = valuesOf(step)[field.name];
    if (known !== undefined && text === toEntry(step, field.name, known)) values[field.name] = known;
    else if (text !== "") values[field.name] = readValue(field, text);
  }
  return values;
}

/** Throws an `InvalidEntry` if the text is not valid JSON but should be. */
function readValue(field: Field, text: string): Json {
  const isText = field.kind === "long" && !/^\s*[[{]/.test(text);
  if (isText) return text;
  try {
    return parseJson(text);
  } catch {
    throw new InvalidEntry(t.answer.wrong[field.kind === "number" ? "number" : "json"](field.label), field);
  }
}
