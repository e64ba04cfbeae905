// Saves a copy of a file of the folder as a workflow in the database, where it can be edited.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { ID_PATTERN } from "../../builder/new-id";
import { t } from "../../strings";
import { Dialog } from "../../ui/dialog";
import { ErrorBox, Problem } from "../../ui/problem";
import { isConflict, type Source, saveSource } from "./use-draft";

type CopyDialogProps = { workflow: string; source: Source; onClose: () => void };

export function CopyDialog({ workflow, source, onClose }: CopyDialogProps) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [id, setId] = useState(`${workflow}-copy`);
  const save = useMutation({
    mutationFn: () => saveSource(id, withId(source, id), { isNew: true }),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["workflows"] });
      await navigate({ to: "/workflows/$workflow", params: { workflow: id } });
    },
  });
  return (
    <Dialog label={t.workflow.copyTitle} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        <h2>{t.workflow.copyTitle}</h2>
        <p className="soft">{t.workflow.copyHelp}</p>
        <label className="field">
          <span>{t.workflow.copyId}</span>
          <input
            className="input mono"
            value={id}
            required
            pattern={ID_PATTERN}
            title={t.workflow.idHelp}
            autoFocus
            onChange={(event) => setId(event.target.value)}
          />
        </label>
        {isConflict(save.error) ? (
          <Problem>{t.workflow.copyFailed}</Problem>
        ) : (
          save.error && <ErrorBox error={save.error} />
        )}
        <div className="dialog-actions">
          <button type="button" className="button" onClick={onClose}>
            {t.cancel}
          </button>
          <button type="submit" className="button" data-look="main" disabled={save.isPending}>
            {t.workflow.copy}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** The source with another id, if the definition declares one. Everything else keeps its text. */
function withId(source: Source, id: string): Source {
  const text = source.files[source.entry] ?? "";
  try {
    const declared = (JSON.parse(text) as { id?: unknown }).id;
    if (typeof declared !== "string") return source;
    const changed = text.replace(
      new RegExp(`("id"\\s*:\\s*)${JSON.stringify(declared).replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}`),
      (_, start: string) => start + JSON.stringify(id),
    );
    return { ...source, files: { ...source.files, [source.entry]: changed } };
  } catch {
    return source;
  }
}
