// The schedules of a workflow: when they start it, with which inputs; they are added, changed, paused and deleted.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, read, type Schemas } from "../../api/client";
import type { Json } from "../../api/json";
import { t } from "../../strings";
import { IconButton } from "../../ui/button";
import { ConfirmDialog } from "../../ui/dialog";
import { formatTime } from "../../ui/format";
import { ErrorBox, Problem } from "../../ui/problem";
import { describeCron } from "./cron";
import { describeInputs } from "./describe-inputs";
import { ScheduleForm } from "./schedule-form";
import { TriggeredRuns } from "./triggered-runs";

export type Schedule = Schemas["Schedule"];

const SCHEDULES = ["schedules"];

export function Schedules({ workflow }: { workflow: Schemas["WorkflowInfo"] }) {
  const schedules = useQuery({
    queryKey: [...SCHEDULES, "items"],
    queryFn: async () => (await read(api.GET("/api/v1/schedules"))).items,
  });
  const [removing, setRemoving] = useState<string>();
  const [edited, setEdited] = useState<Schedule>();
  const { remove, pause, refresh } = useChanges();
  const own = schedules.data?.filter((schedule) => schedule.workflow === workflow.id) ?? [];
  const problem = schedules.error ?? remove.error ?? pause.error;
  const ids = schedules.data?.map(({ id }) => id) ?? [];
  return (
    <section className="trigger-list">
      <h3>{t.build.schedules}</h3>
      {problem && <ErrorBox error={problem} />}
      {own.length === 0 && <p className="soft">{t.build.noSchedules}</p>}
      <ul>
        {own.map((schedule) => (
          <li key={schedule.id}>
            <ScheduleFacts schedule={schedule} />
            <IconButton
              icon="edit"
              label={t.cron.edit(schedule.id)}
              aria-pressed={edited?.id === schedule.id}
              onClick={() => setEdited(schedule)}
            />
            <IconButton
              icon={schedule.paused ? "play" : "pause"}
              label={schedule.paused ? t.build.resume(schedule.id) : t.build.pause(schedule.id)}
              onClick={() => pause.mutate(schedule)}
            />
            <IconButton
              icon="close"
              label={t.build.deleteTrigger(schedule.id)}
              onClick={() => setRemoving(schedule.id)}
            />
          </li>
        ))}
      </ul>
      {schedules.data && (
        <ScheduleForm
          key={edited?.id ?? ""}
          workflow={workflow}
          edited={edited}
          freeId={freeId(workflow.id, ids)}
          onDone={() => {
            setEdited(undefined);
            refresh();
          }}
          onCancel={() => setEdited(undefined)}
        />
      )}
      {removing !== undefined && (
        <ConfirmDialog
          title={t.build.confirmDelete(removing)}
          help={t.build.confirmDeleteHelp}
          confirm={t.build.remove}
          onConfirm={() => {
            if (edited?.id === removing) setEdited(undefined);
            remove.mutate(removing);
          }}
          onClose={() => setRemoving(undefined)}
        />
      )}
    </section>
  );
}

/** Deletes, pauses and resumes schedules. */
function useChanges() {
  const queries = useQueryClient();
  const refresh = () => void queries.invalidateQueries({ queryKey: SCHEDULES });
  const remove = useMutation({
    mutationFn: (id: string) => read(api.DELETE("/api/v1/schedules/{id}", { params: { path: { id } } })),
    onSuccess: refresh,
  });
  const pause = useMutation({
    mutationFn: ({ id, paused }: Schedule) => {
      const params = { path: { id } };
      return paused
        ? read(api.POST("/api/v1/schedules/{id}/resume", { params }))
        : read(api.POST("/api/v1/schedules/{id}/pause", { params }));
    },
    onSuccess: refresh,
  });
  return { remove, pause, refresh };
}

function ScheduleFacts({ schedule }: { schedule: Schedule }) {
  const inputs = describeInputs(schedule.inputs as unknown as Json);
  return (
    <div className="schedule-facts">
      <p>
        <b>{describeCron(schedule.cron) ?? schedule.cron}</b>{" "}
        <span className="soft">
          {schedule.timezone} ·{" "}
          {schedule.paused ? t.build.paused : t.build.next(formatTime(schedule.next_at))}
        </span>
      </p>
      <p className="faint cut">
        {schedule.id} · <code>{schedule.cron}</code>
        {inputs !== undefined && ` · ${t.cron.withInputs(inputs)}`} ·{" "}
        <TriggeredRuns kind="schedule" id={schedule.id} />
      </p>
      {schedule.last_error && <Problem severity="warning">{t.build.notStarted(schedule.last_error)}</Problem>}
    </div>
  );
}

/** The id of a workflow, or with a number if it is taken. */
export function freeId(workflow: string, taken: readonly string[]): string {
  if (!taken.includes(workflow)) return workflow;
  let number = 2;
  while (taken.includes(`${workflow}-${number}`)) number += 1;
  return `${workflow}-${number}`;
}
