// Deletes a workflow, after it has asked.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { api, read } from "../../api/client";
import { deletedWorkflowsQuery } from "../../api/queries";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { showNotice } from "../../ui/notices";
import { ErrorBox } from "../../ui/problem";
import { collectUnsaved, removeDraft, removeUnsaved } from "./kept-draft";
import { type Source, saveSource } from "./use-draft";

type DeleteDialogProps = {
  workflow: string;
  /** Where the viewer's changes are kept. */
  place: string;
  name: string;
  /** The stored version, to restore it. */
  stored: Source;
  onClose: () => void;
};

export function DeleteDialog({ workflow, place, name, stored, onClose }: DeleteDialogProps) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const title = t.workflow.confirmDelete(name);
  const remove = useMutation({
    mutationFn: () => read(api.DELETE("/api/v1/workflows/{id}", { params: { path: { id: workflow } } })),
    onSuccess: async () => {
      removeDraft(place);
      for (const draft of collectUnsaved(place)) removeUnsaved(draft);
      // Its changes are deleted with it.
      await navigate({ to: "/", ignoreBlocker: true });
      queries.removeQueries({ queryKey: ["workflows", workflow] });
      await queries.invalidateQueries({ queryKey: ["workflows"], exact: true });
      const restore = () =>
        void saveSource(workflow, stored, { isNew: true }).then(
          () => {
            void queries.invalidateQueries({ queryKey: ["workflows"] });
            void queries.invalidateQueries({ queryKey: deletedWorkflowsQuery.queryKey });
          },
          // Another version was stored meanwhile, or the server is not reachable: the page of the workflow shows which.
          () => navigate({ to: "/workflows/$workflow", params: { workflow } }),
        );
      showNotice({ text: t.workflow.deleted(name), action: t.workflow.undoDelete, run: restore });
    },
  });
  return (
    <Dialog label={title} onClose={onClose}>
      <div className="dialog-body">
        <h2>{title}</h2>
        <p className="soft">{t.workflow.confirmDeleteHelp}</p>
        {remove.error && <ErrorBox error={remove.error} />}
        <div className="dialog-actions">
          <Button onClick={onClose}>{t.cancel}</Button>
          <Button look="danger" icon="trash" disabled={remove.isPending} onClick={() => remove.mutate()}>
            {t.workflow.delete}
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
