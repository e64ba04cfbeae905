// A new workflow: its format and its id. It begins with one step that runs as it is.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { api, read } from "../api/client";
import { isConflict, saveSource } from "../places/workflow/use-draft";
import { t } from "../strings";
import { ErrorBox, Problem } from "../ui/problem";
import { useTitle } from "../ui/title";
import { rememberView } from "./view";
import "./new-workflow.css";

const FORMATS = ["steps", "flow", "pipeline", "graph", "markdown", "agent"];

export function NewWorkflow() {
  useTitle(t.build.newWorkflow);
  const search = useSearch({ from: "/new" });
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [format, setFormat] = useState(
    search.format && FORMATS.includes(search.format) ? search.format : "steps",
  );
  const [id, setId] = useState("");
  const create = useMutation({
    mutationFn: async () => {
      const params = { query: { format, name: id } };
      const skeleton = await read(api.GET("/api/v1/definitions/skeleton", { params }));
      await saveSource(
        id,
        { entry: skeleton.entry, files: { [skeleton.entry]: skeleton.text } },
        { isNew: true },
      );
    },
    onSuccess: async () => {
      rememberView("build");
      await queries.invalidateQueries({ queryKey: ["workflows"] });
      await navigate({ to: "/workflows/$workflow", params: { workflow: id } });
    },
  });
  return (
    <div className="page new-workflow">
      <h1>{t.build.newWorkflow}</h1>
      <p className="soft">{t.build.newHelp}</p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          create.mutate();
        }}
      >
        <label className="field">
          <span>{t.build.newId}</span>
          <input
            className="input mono"
            value={id}
            required
            autoComplete="off"
            pattern="[A-Za-z0-9_:\-][A-Za-z0-9._:\-]*"
            title={t.workflow.idHelp}
            onChange={(event) => setId(event.target.value)}
          />
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
        {isConflict(create.error) ? (
          <Problem>{t.build.exists}</Problem>
        ) : (
          create.error && <ErrorBox error={create.error} />
        )}
        <button type="submit" className="button" data-look="main" disabled={create.isPending}>
          {t.build.create}
        </button>
      </form>
    </div>
  );
}
