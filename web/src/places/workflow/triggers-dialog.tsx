// What starts a workflow by itself: schedules and webhooks.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, read, SERVER } from "../../api/client";
import { t } from "../../strings";
import { Button, CopyButton, IconButton } from "../../ui/button";
import { ConfirmDialog, Dialog } from "../../ui/dialog";
import { formatTime } from "../../ui/format";
import { ErrorBox, Problem } from "../../ui/problem";

type TriggersProps = { workflow: string; onClose: () => void };
type Removal = { kind: "schedules" | "hooks"; id: string };

export function TriggersDialog({ workflow, onClose }: TriggersProps) {
  const queries = useQueryClient();
  const schedules = useQuery({
    queryKey: ["schedules"],
    queryFn: async () => (await read(api.GET("/api/v1/schedules"))).items,
  });
  const hooks = useQuery({
    queryKey: ["hooks"],
    queryFn: async () => (await read(api.GET("/api/v1/hooks"))).items,
  });
  const [removing, setRemoving] = useState<Removal>();
  const refresh = (kind: Removal["kind"]) => void queries.invalidateQueries({ queryKey: [kind] });
  const remove = useMutation({
    mutationFn: ({ kind, id }: Removal) => {
      const params = { path: { id } };
      return kind === "schedules"
        ? read(api.DELETE("/api/v1/schedules/{id}", { params }))
        : read(api.DELETE("/api/v1/hooks/{id}", { params }));
    },
    onSuccess: (_, { kind }) => refresh(kind),
  });
  const pause = useMutation({
    mutationFn: ({ id, paused }: { id: string; paused: boolean }) => {
      const params = { path: { id } };
      return paused
        ? read(api.POST("/api/v1/schedules/{id}/resume", { params }))
        : read(api.POST("/api/v1/schedules/{id}/pause", { params }));
    },
    onSuccess: () => refresh("schedules"),
  });
  const addHook = useMutation({
    mutationFn: () => {
      const id = freeId(workflow, hooks.data?.map((hook) => hook.id) ?? []);
      return read(api.PUT("/api/v1/hooks/{id}", { params: { path: { id } }, body: { workflow } }));
    },
    onSuccess: () => refresh("hooks"),
  });
  const ownSchedules = schedules.data?.filter((schedule) => schedule.workflow === workflow) ?? [];
  const ownHooks = hooks.data?.filter((hook) => hook.workflow === workflow) ?? [];
  const problem = schedules.error ?? hooks.error ?? remove.error ?? pause.error ?? addHook.error;
  return (
    <Dialog label={t.build.triggers} onClose={onClose} className="snippets">
      <div className="dialog-body">
        <h2>{t.build.triggers}</h2>
        {problem && <ErrorBox error={problem} />}
        <section className="trigger-list">
          <h3>{t.build.schedules}</h3>
          {ownSchedules.length === 0 && <p className="soft">{t.build.noSchedules}</p>}
          <ul>
            {ownSchedules.map((schedule) => (
              <li key={schedule.id}>
                <b>{schedule.id}</b> <code>{schedule.cron}</code>{" "}
                <span className="soft">{schedule.timezone}</span>
                <span className="soft">
                  {schedule.paused ? t.build.paused : t.build.next(formatTime(schedule.next_at))}
                </span>
                {schedule.last_error && (
                  <Problem severity="warning">{t.build.notStarted(schedule.last_error)}</Problem>
                )}
                <IconButton
                  icon={schedule.paused ? "play" : "pause"}
                  label={schedule.paused ? t.build.resume(schedule.id) : t.build.pause(schedule.id)}
                  onClick={() => pause.mutate(schedule)}
                />
                <IconButton
                  icon="close"
                  label={t.build.deleteTrigger(schedule.id)}
                  onClick={() => setRemoving({ kind: "schedules", id: schedule.id })}
                />
              </li>
            ))}
          </ul>
          <ScheduleForm
            workflow={workflow}
            taken={schedules.data?.map((schedule) => schedule.id) ?? []}
            onAdded={() => refresh("schedules")}
          />
        </section>
        <section className="trigger-list">
          <h3>{t.build.hooks}</h3>
          {ownHooks.length === 0 && <p className="soft">{t.build.noHooks}</p>}
          <ul>
            {ownHooks.map((hook) => (
              <li key={hook.id}>
                <code className="cut">POST {addressOf(hook.path)}</code>
                <CopyButton text={() => addressOf(hook.path)} />
                <IconButton
                  icon="close"
                  label={t.build.deleteTrigger(hook.id)}
                  onClick={() => setRemoving({ kind: "hooks", id: hook.id })}
                />
              </li>
            ))}
          </ul>
          {addHook.data?.secret && (
            <p role="status">
              {t.build.hookSecret} <code>{addHook.data.secret}</code>{" "}
              <CopyButton text={() => addHook.data?.secret ?? ""} />
            </p>
          )}
          <Button icon="plus" disabled={addHook.isPending || !hooks.data} onClick={() => addHook.mutate()}>
            {t.build.addHook}
          </Button>
        </section>
        <div className="dialog-actions">
          <Button onClick={onClose}>{t.close}</Button>
        </div>
      </div>
      {removing && (
        <ConfirmDialog
          title={t.build.confirmDelete(removing.id)}
          help={t.build.confirmDeleteHelp}
          confirm={t.build.remove}
          onConfirm={() => remove.mutate(removing)}
          onClose={() => setRemoving(undefined)}
        />
      )}
    </Dialog>
  );
}

type ScheduleFormProps = { workflow: string; taken: string[]; onAdded: () => void };

function ScheduleForm({ workflow, taken, onAdded }: ScheduleFormProps) {
  const [cron, setCron] = useState("");
  const [timezone, setTimezone] = useState(() => Intl.DateTimeFormat().resolvedOptions().timeZone);
  const [skips, setSkips] = useState(false);
  const add = useMutation({
    mutationFn: () => {
      const params = { path: { id: freeId(workflow, taken) } };
      const overlap = skips ? "skip" : "allow";
      return read(api.PUT("/api/v1/schedules/{id}", { params, body: { workflow, cron, timezone, overlap } }));
    },
    onSuccess: () => {
      setCron("");
      onAdded();
    },
  });
  return (
    <form
      className="schedule-form"
      onSubmit={(event) => {
        event.preventDefault();
        add.mutate();
      }}
    >
      <label className="field">
        <span>{t.build.cron}</span>
        <input
          className="input mono"
          value={cron}
          required
          onChange={(event) => setCron(event.target.value)}
        />
        <small>{t.build.cronHelp}</small>
      </label>
      <label className="field">
        <span>{t.build.timezone}</span>
        <input
          className="input"
          value={timezone}
          required
          onChange={(event) => setTimezone(event.target.value)}
        />
      </label>
      <Button type="submit" icon="plus" disabled={add.isPending}>
        {t.build.addSchedule}
      </Button>
      <label className="schedule-overlap">
        <input type="checkbox" checked={skips} onChange={(event) => setSkips(event.target.checked)} />
        {t.build.skipOverlap}
      </label>
      {add.error && <ErrorBox error={add.error} />}
    </form>
  );
}

/** The id of a workflow, or with a number if it is taken. */
function freeId(workflow: string, taken: string[]): string {
  if (!taken.includes(workflow)) return workflow;
  let number = 2;
  while (taken.includes(`${workflow}-${number}`)) number += 1;
  return `${workflow}-${number}`;
}

/** The address of a webhook for callers. */
function addressOf(path: string): string {
  return new URL(path.replace(/^\//, ""), SERVER).href;
}
