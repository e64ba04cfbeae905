// The page of a workflow that does not exist: if it was deleted, its last version can be restored.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMay } from "../../api/caller";
import { api, read } from "../../api/client";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { formatTime } from "../../ui/format";
import { EmptyPlace, ErrorBox } from "../../ui/problem";
import { NothingHere } from "../not-found";
import { type Source, saveSource } from "./use-draft";

export function MissingWorkflow({ workflow }: { workflow: string }) {
  const queries = useQueryClient();
  const mayWrite = useMay("write");
  const params = { path: { id: workflow } };
  const versions = useQuery({
    queryKey: ["workflows", workflow, "versions", "items"],
    queryFn: async () => (await read(api.GET("/api/v1/workflows/{id}/versions", { params }))).items,
    retry: false,
  });
  const last = versions.data?.[0];
  const restore = useMutation({
    mutationFn: async (version: number) => {
      const request = api.GET("/api/v1/workflows/{id}/source", { params: { ...params, query: { version } } });
      await saveSource(workflow, (await read(request)) as Source, { isNew: true });
    },
    onSuccess: () => void queries.invalidateQueries({ queryKey: ["workflows"] }),
  });
  if (!last) return <NothingHere>{t.workflow.notFound}</NothingHere>;
  return (
    <EmptyPlace title={t.workflow.deletedTitle}>
      <p>{t.workflow.deletedHelp(last.version, formatTime(last.created_at))}</p>
      {mayWrite && (
        <Button
          look="main"
          icon="undo"
          disabled={restore.isPending}
          onClick={() => restore.mutate(last.version)}
        >
          {t.workflow.restoreDeleted}
        </Button>
      )}
      {restore.error && <ErrorBox error={restore.error} />}
    </EmptyPlace>
  );
}
