// A new workflow: its format and its id. It begins with one step that runs as it is.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useId, useState } from "react";
import { useMay } from "../api/caller";
import { api, read } from "../api/client";
import { isConflict, saveSource } from "../places/workflow/use-draft";
import { t } from "../strings";
import { ErrorBox, Problem } from "../ui/problem";
import { useTitle } from "../ui/title";
import { isId, suggestId, withName } from "./new-id";
import "./new-workflow.css";

const FORMATS = ["steps", "flow", "pipeline", "graph", "markdown", "agent"];

export function NewWorkflow() {
  useTitle(t.build.newWorkflow);
  const help = useId();
  const mayWrite = useMay("write");
  const search = useSearch({ from: "/new" });
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [format, setFormat] = useState(
    search.format && FORMATS.includes(search.format) ? search.format : "steps",
  );
  const [name, setName] = useState("");
  const [ownId, setOwnId] = useState<string>();
  const [problem, setProblem] = useState<string>();
  const id = ownId ?? suggestId(name);
  const create = useMutation({
    mutationFn: async () => {
      const params = { query: { format, name: id } };
      const skeleton = await read(api.GET("/api/v1/definitions/skeleton", { params }));
      await saveSource(
        id,
        {
          entry: skeleton.entry,
          files: { [skeleton.entry]: withName(skeleton.text, id, name.trim() || id) },
        },
        { isNew: true },
      );
    },
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["workflows"] });
      await navigate({ to: "/workflows/$workflow", params: { workflow: id }, search: { view: "build" } });
    },
  });
  return (
    <div className="page new-workflow">
      <h1>{t.build.newWorkflow}</h1>
      <p className="soft">{mayWrite ? t.build.newHelp : t.key.noWrite}</p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const wrong = id === "" ? t.build.nameMissing : isId(id) ? undefined : t.build.idInvalid(id);
          setProblem(wrong);
          if (wrong === undefined) create.mutate();
        }}
        noValidate
      >
        <label className="field">
          <span>{t.build.newName}</span>
          <input
            className="input"
            value={name}
            autoComplete="off"
            onChange={(event) => setName(event.target.value)}
          />
        </label>
        <label className="field">
          <span>{t.build.newId}</span>
          <input
            className="input mono"
            value={id}
            autoComplete="off"
            aria-describedby={help}
            onChange={(event) => setOwnId(event.target.value)}
          />
          <small id={help}>{t.build.newIdHelp}</small>
        </label>
        <fieldset className="format-list">
          <legend>{t.build.newFormat}</legend>
          {FORMATS.map((name) => (
            <label key={name} className="format" data-selected={name === format || undefined}>
              <input
                type="radio"
                name="format"
                value={name}
                checked={name === format}
                onChange={() => setFormat(name)}
              />
              <span>
                <b>{t.build.formats[name]?.name}</b>
                <span className="soft">{t.build.formats[name]?.help}</span>
              </span>
            </label>
          ))}
        </fieldset>
        {problem && <Problem>{problem}</Problem>}
        {isConflict(create.error) ? (
          <Problem>{t.build.exists}</Problem>
        ) : (
          create.error && <ErrorBox error={create.error} />
        )}
        <button type="submit" className="button" data-look="main" disabled={create.isPending || !mayWrite}>
          {t.build.create}
        </button>
      </form>
    </div>
  );
}
