// What starts a workflow by itself: schedules and webhooks.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, read, type Schemas, SERVER } from "../../api/client";
import { t } from "../../strings";
import { Button, CopyButton, IconButton } from "../../ui/button";
import { ConfirmDialog, Dialog } from "../../ui/dialog";
import { ErrorBox } from "../../ui/problem";
import { freeId, Schedules } from "./schedules";
import { TriggeredRuns } from "./triggered-runs";

type TriggersProps = { workflow: Schemas["WorkflowInfo"]; onClose: () => void };

export function TriggersDialog({ workflow, onClose }: TriggersProps) {
  return (
    <Dialog label={t.build.triggers} onClose={onClose} className="snippets">
      <div className="dialog-body">
        <h2>{t.build.triggers}</h2>
        <Schedules workflow={workflow} />
        <Hooks workflow={workflow.id} />
        <div className="dialog-actions">
          <Button onClick={onClose}>{t.close}</Button>
        </div>
      </div>
    </Dialog>
  );
}

function Hooks({ workflow }: { workflow: string }) {
  const queries = useQueryClient();
  const hooks = useQuery({
    queryKey: ["hooks"],
    queryFn: async () => (await read(api.GET("/api/v1/hooks"))).items,
  });
  const [removing, setRemoving] = useState<string>();
  const onSuccess = () => void queries.invalidateQueries({ queryKey: ["hooks"] });
  const remove = useMutation({
    mutationFn: (id: string) => read(api.DELETE("/api/v1/hooks/{id}", { params: { path: { id } } })),
    onSuccess,
  });
  const add = useMutation({
    mutationFn: () => {
      const id = freeId(workflow, hooks.data?.map((hook) => hook.id) ?? []);
      return read(api.PUT("/api/v1/hooks/{id}", { params: { path: { id } }, body: { workflow } }));
    },
    onSuccess,
  });
  const own = hooks.data?.filter((hook) => hook.workflow === workflow) ?? [];
  const problem = hooks.error ?? remove.error ?? add.error;
  return (
    <section className="trigger-list">
      <h3>{t.build.hooks}</h3>
      {problem && <ErrorBox error={problem} />}
      {own.length === 0 && <p className="soft">{t.build.noHooks}</p>}
      <ul>
        {own.map((hook) => (
          <li key={hook.id}>
            <code className="cut">POST {addressOf(hook.path)}</code>
            <CopyButton text={() => addressOf(hook.path)} />
            <TriggeredRuns kind="webhook" id={hook.id} />
            <IconButton
              icon="close"
              label={t.build.deleteTrigger(hook.id)}
              onClick={() => setRemoving(hook.id)}
            />
          </li>
        ))}
      </ul>
      {add.data?.secret && (
        <p role="status">
          {t.build.hookSecret} <code>{add.data.secret}</code>{" "}
          <CopyButton text={() => add.data?.secret ?? ""} />
        </p>
      )}
      <Button icon="plus" disabled={add.isPending || !hooks.data} onClick={() => add.mutate()}>
        {t.build.addHook}
      </Button>
      {removing !== undefined && (
        <ConfirmDialog
          title={t.build.confirmDelete(removing)}
          help={t.build.confirmDeleteHelp}
          confirm={t.build.remove}
          onConfirm={() => remove.mutate(removing)}
          onClose={() => setRemoving(undefined)}
        />
      )}
    </section>
  );
}

/** The address of a webhook for callers. */
function addressOf(path: string): string {
  return new URL(path.replace(/^\//, ""), SERVER).href;
}
