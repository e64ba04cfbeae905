// A new workflow: its format and its id. It begins with one step that runs as it is.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { type RefObject, useId, useRef, useState } from "react";
import { useMay } from "../api/caller";
import { api, read } from "../api/client";
import { isConflict, saveSource } from "../places/workflow/use-draft";
import { t } from "../strings";
import { ErrorBox } from "../ui/problem";
import { useTitle } from "../ui/title";
import { isId, suggestId, withName } from "./new-id";
import { TemplateList } from "./template-list";
import { TEMPLATES, type Template, writeTemplate } from "./templates";
import "./new-workflow.css";

const FORMATS = ["steps", "flow", "pipeline", "graph", "markdown", "agent"];

export function NewWorkflow() {
  useTitle(t.build.newWorkflow);
  const mayWrite = useMay("write");
  const search = useSearch({ from: "/new" });
  const [format, setFormat] = useState(
    search.format && FORMATS.includes(search.format) ? search.format : "steps",
  );
  const [template, setTemplate] = useState(() => TEMPLATES.find((one) => one.id === search.template));
  const [ownName, setName] = useState<string>();
  const name = ownName ?? (template ? t.templates.pipelines[template.id].name : "");
  const [ownId, setOwnId] = useState<string>();
  const [problem, setProblem] = useState<Problems>();
  const [ending] = useState(randomEnding);
  const chosenFormat = template ? "pipeline" : format;
  // A name may have no letter that can be in an id.
  const suggested = name.trim() === "" ? "" : suggestId(name, chosenFormat) || `${chosenFormat}-${ending}`;
  const id = ownId ?? suggested;
  const create = useCreate(format, template, name);
  const refs = { name: useRef<HTMLInputElement>(null), id: useRef<HTMLInputElement>(null) };
  const isTaken = isConflict(create.error);
  const idProblem = problem?.id ?? (isTaken && create.variables === id ? t.build.exists : undefined);
  return (
    <div className="page new-workflow">
      <h1>{t.build.newWorkflow}</h1>
      <p className="soft">{mayWrite ? t.build.newHelp : t.key.noWrite}</p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const wrong = findProblems(name, id, chosenFormat);
          setProblem(wrong);
          if (wrong === undefined) create.mutate(id);
          else refs[wrong.name ? "name" : "id"].current?.focus();
        }}
        noValidate
      >
        <EntryField
          label={t.build.newName}
          input={refs.name}
          value={name}
          problem={problem?.name}
          onChange={setName}
        />
        <EntryField
          label={t.build.newId}
          help={t.build.newIdHelp}
          input={refs.id}
          value={id}
          problem={idProblem}
          onChange={setOwnId}
        />
        <FormatList
          selected={template ? undefined : format}
          onSelect={(name) => {
            setFormat(name);
            setTemplate(undefined);
          }}
        />
        <TemplateList selected={template} onSelect={setTemplate} />
        {create.error && !isTaken && <ErrorBox error={create.error} />}
        <button type="submit" className="button" data-look="main" disabled={create.isPending || !mayWrite}>
          {t.build.create}
        </button>
      </form>
    </div>
  );
}

/** The error of a field, by the field. */
type Problems = { name?: string; id?: string };

function findProblems(name: string, id: string, format: string): Problems | undefined {
  if (name.trim() === "" && id === "") return { name: t.build.nameMissing };
  if (id === "") return { id: t.build.idMissing };
  return isId(id, format) ? undefined : { id: t.build.idInvalid(id, format) };
}

/** Creates the workflow, and opens it. */
function useCreate(format: string, template: Template | undefined, name: string) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  return useMutation({
    mutationFn: async (id: string) => {
      const title = name.trim() || id;
      if (template) {
        const entry = `${id}.json`;
        const text = writeTemplate(template, id, title);
        await saveSource(id, { entry, files: { [entry]: text } }, { isNew: true });
        return;
      }
      const params = { query: { format, name: id } };
      const { entry, text } = await read(api.GET("/api/v1/definitions/skeleton", { params }));
      await saveSource(id, { entry, files: { [entry]: withName(text, id, title) } }, { isNew: true });
    },
    onSuccess: async (_, id) => {
      await queries.invalidateQueries({ queryKey: ["workflows"] });
      await navigate({ to: "/workflows/$workflow", params: { workflow: id }, search: { view: "build" } });
    },
  });
}

type EntryFieldProps = {
  label: string;
  help?: string;
  input: RefObject<HTMLInputElement | null>;
  value: string;
  problem: string | undefined;
  onChange: (text: string) => void;
};

/** A field with its error. */
function EntryField({ label, help, input, value, problem, onChange }: EntryFieldProps) {
  const id = useId();
  const described = [help && `${id}-help`, problem && `${id}-problem`].filter(Boolean).join(" ");
  return (
    <label className="field">
      <span>{label}</span>
      <input
        className={help ? "input mono" : "input"}
        ref={input}
        value={value}
        autoComplete="off"
        aria-invalid={problem !== undefined}
        aria-describedby={described || undefined}
        onChange={(event) => onChange(event.target.value)}
      />
      {problem !== undefined && (
        <small id={`${id}-problem`} className="field-error" role="alert">
          {problem}
        </small>
      )}
      {help && <small id={`${id}-help`}>{help}</small>}
    </label>
  );
}

type FormatListProps = { selected: string | undefined; onSelect: (format: string) => void };

function FormatList({ selected, onSelect }: FormatListProps) {
  return (
    <fieldset className="format-list">
      <legend>{t.build.newFormat}</legend>
      {FORMATS.map((format) => (
        <label key={format} className="format" data-selected={format === selected || undefined}>
          <input
            type="radio"
            name="format"
            value={format}
            checked={format === selected}
            onChange={() => onSelect(format)}
          />
          <span>
            <b>{t.build.formats[format]?.name}</b>
            <span className="soft">{t.build.formats[format]?.help}</span>
          </span>
        </label>
      ))}
    </fieldset>
  );
}

/** A few characters that make an id its own. */
function randomEnding(): string {
  return Math.random().toString(36).slice(2, 6);
}
