// Runs one step of a workflow alone, with the values that an earlier run had, or with others.
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useContext, useState } from "react";
import { attemptHeader } from "../../api/attempt";
import { api, read, readExactly, type Schemas } from "../../api/client";
import { formatJson, type Json, parseJson } from "../../api/json";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { shortenId } from "../../ui/format";
import { KeepScope } from "../../ui/keep-scope";
import { ErrorBox, Problem } from "../../ui/problem";
import { type Entries, type Field, InvalidEntry, SchemaFields } from "../../ui/schema-form";

type StepAlone = Schemas["StepAlone"];

type StepAloneProps = {
  workflow: string;
  path: string;
  /** The run whose values are offered: its id, or `last`. */
  run: string;
  isUnsaved?: boolean;
  onClose: () => void;
};

export function StepAloneDialog({ workflow, path, run, isUnsaved = false, onClose }: StepAloneProps) {
  const { data, error } = useQuery({
    queryKey: ["workflows", workflow, "step", path, run],
    // Values of a run that goes on change.
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
  return (
    <Dialog label={t.alone.title(path)} onClose={onClose}>
      <div className="dialog-body">
        <h2>{t.alone.title(path)}</h2>
        <p className="soft">{t.alone.help}</p>
        {isUnsaved && <Problem severity="warning">{t.alone.unsaved}</Problem>}
        {error && <ErrorBox error={error} />}
        {!data && !error && <p className="soft">{t.loading}</p>}
        {data?.problem && <Problem severity="warning">{data.problem}</Problem>}
        {data && !data.problem ? (
          <AloneForm workflow={workflow} path={path} step={data} onClose={onClose} />
        ) : (
          <div className="dialog-actions">
            <Button onClick={onClose}>{t.close}</Button>
          </div>
        )}
      </div>
    </Dialog>
  );
}

type AloneFormProps = { workflow: string; path: string; step: StepAlone; onClose: () => void };

function AloneForm({ workflow, path, step, onClose }: AloneFormProps) {
  const navigate = useNavigate();
  const keep = useContext(KeepScope);
  const fields = step.inputs.map(toField);
  const [entries, setEntries] = useState(() => startEntries(step));
  const [problem, setProblem] = useState<string>();
  const start = useMutation({
    mutationFn: (inputs: Json) => {
      const body = { workflow, step: path, inputs: inputs as never };
      return read(api.POST("/api/v1/runs", { body, headers: attemptHeader() }));
    },
    onSuccess: async (run) => {
      const isKept = await keep();
      onClose();
      const to = { to: "/runs/$run", params: { run: (run as { run_id: string }).run_id } } as const;
      void navigate({ ...to, ignoreBlocker: isKept });
    },
  });
  const send = () => {
    try {
      start.mutate(readValues(step, fields, entries));
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
        send();
      }}
    >
      {step.run ? (
        <p className="soft">
          {t.alone.valuesOf}{" "}
          <Link to="/runs/$run" params={{ run: step.run }} className="mono">
            {shortenId(step.run)}
          </Link>{" "}
          <button type="button" className="text-button" onClick={() => setEntries({})}>
            {t.alone.clear}
          </button>
        </p>
      ) : (
        fields.length > 0 && <p className="soft">{t.alone.noValues}</p>
      )}
      {fields.length === 0 && <p className="soft">{t.alone.noInputs}</p>}
      {fields.some((field) => field.kind === "long") && <p className="faint">{t.alone.textOrJson}</p>}
      <SchemaFields fields={fields} entries={entries} onChange={setEntries} isFirstFocused />
      {problem && <Problem>{problem}</Problem>}
      {start.error && <ErrorBox error={start.error} />}
      <div className="dialog-actions">
        <Button onClick={onClose}>{t.cancel}</Button>
        <Button look="main" icon="play" type="submit" disabled={start.isPending}>
          {t.alone.start}
        </Button>
      </div>
    </form>
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
  const values = Object.entries((step.values ?? {}) as { [name: string]: Json });
  return Object.fromEntries(values.map(([name, value]) => [name, toEntry(step, name, value)]));
}

function toEntry(step: StepAlone, name: string, value: Json): string {
  const kind = KINDS[step.inputs.find((input) => input.name === name)?.kind ?? ""];
  if (kind !== undefined) return JSON.stringify(value);
  return typeof value === "string" ? value : formatJson(value);
}

/** What was entered. A value that was not changed stays as it was; a text that looks like JSON is a value. */
function readValues(step: StepAlone, fields: Field[], entries: Entries): Json {
  const values: { [name: string]: Json } = {};
  for (const field of fields) {
    const text = entries[field.name] ?? "";
    const known = (step.values as { [name: string]: Json } | null)?.[field.name];
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
    throw new InvalidEntry(t.answer.wrong[field.kind === "number" ? "number" : "json"](field.label));
  }
}
