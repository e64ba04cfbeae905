// Adds or changes a schedule: when it is due, in words and as a cron expression, and the inputs of its runs.
import { useMutation } from "@tanstack/react-query";
import { useId, useState } from "react";
import { api, read, type Schemas } from "../../api/client";
import type { Json } from "../../api/json";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { ErrorBox, Problem } from "../../ui/problem";
import { SchemaFields } from "../../ui/schema-fields";
import { startEntries } from "../../ui/schema-form";
import { useInvalidEntry } from "../../ui/use-invalid-entry";
import { CHOICES, type Choice, describeCron, findCronProblem, toCron, toWhen, type When } from "./cron";
import { listInputFields, readInputs, toEntries } from "./input-fields";
import type { Schedule } from "./schedules";

type ScheduleFormProps = {
  workflow: Schemas["WorkflowInfo"];
  /** The schedule that is changed; a new one is added without. */
  edited: Schedule | undefined;
  /** The id of a new schedule. */
  freeId: string;
  onDone: () => void;
  onCancel: () => void;
};

/** A new schedule, unless something else is chosen. */
const DAILY = "0 6 * * *";

export function ScheduleForm({ workflow, edited, freeId, onDone, onCancel }: ScheduleFormProps) {
  const fields = listInputFields(workflow);
  const schedule = useSchedule({ workflow, edited, freeId, onDone }, fields);
  const { when, setWhen, timezone, setTimezone, skips, setSkips, entries, change } = schedule;
  const { problem, invalid, put, send } = schedule;
  return (
    <form
      className="schedule-form"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <WhenFields when={when} onChange={setWhen} />
      <label className="field">
        <span>{t.build.timezone}</span>
        <input className="input" value={timezone} onChange={(event) => setTimezone(event.target.value)} />
      </label>
      {fields.length > 0 && (
        <fieldset className="schedule-inputs">
          <legend>{t.cron.inputs}</legend>
          <SchemaFields fields={fields} entries={entries} onChange={change} invalid={invalid} />
        </fieldset>
      )}
      <label className="schedule-overlap">
        <input type="checkbox" checked={skips} onChange={(event) => setSkips(event.target.checked)} />
        {t.build.skipOverlap}
      </label>
      {problem && <Problem>{problem}</Problem>}
      {put.error && <ErrorBox error={put.error} />}
      <div className="schedule-actions">
        <Button type="submit" icon={edited ? "check" : "plus"} disabled={put.isPending}>
          {edited ? t.cron.save : t.build.addSchedule}
        </Button>
        {edited && <Button onClick={onCancel}>{t.cancel}</Button>}
      </div>
    </form>
  );
}

type ScheduleInput = Omit<ScheduleFormProps, "onCancel">;

/** The entries for a schedule, and the request that stores it. */
function useSchedule(
  { workflow, edited, freeId, onDone }: ScheduleInput,
  fields: ReturnType<typeof listInputFields>,
) {
  const [when, setWhen] = useState(() => toWhen(edited?.cron ?? DAILY));
  const [timezone, setTimezone] = useState(
    () => edited?.timezone ?? Intl.DateTimeFormat().resolvedOptions().timeZone,
  );
  const [skips, setSkips] = useState(edited?.overlap === "skip");
  const [entries, setEntries] = useState(() =>
    edited ? toEntries(fields, edited.inputs as unknown as Json) : startEntries(fields),
  );
  const [problem, setProblem] = useState<string>();
  const { invalid, change, attempt } = useInvalidEntry(setEntries);
  const cron = toCron(when);
  const put = useMutation({
    mutationFn: (inputs: Json) => {
      const params = { path: { id: edited?.id ?? freeId } };
      const body = {
        workflow: workflow.id,
        cron,
        timezone,
        overlap: skips ? ("skip" as const) : ("allow" as const),
        ...(edited && { missed: edited.missed }),
        ...(fields.length > 0 && { inputs: inputs as never }),
      };
      return read(api.PUT("/api/v1/schedules/{id}", { params, body }));
    },
    onSuccess: () => {
      setWhen(toWhen(DAILY));
      setEntries(startEntries(fields));
      onDone();
    },
  });
  const send = () => {
    const wrong = findCronProblem(cron);
    setProblem(wrong);
    if (wrong !== undefined) return;
    attempt(() => put.mutate(readInputs(fields, entries)));
  };
  const times = { when, setWhen, timezone, setTimezone, skips, setSkips };
  return { ...times, entries, change, problem, invalid, put, send };
}

type WhenFieldsProps = { when: When; onChange: (when: When) => void };

/** When a schedule is due: a frequent choice, or a cron expression with its meaning. */
function WhenFields({ when, onChange }: WhenFieldsProps) {
  const help = useId();
  const { choice } = when;
  const choose = (next: Choice) =>
    // The expression of the last choice is the beginning of an own one.
    onChange({ ...when, choice: next, ...(next === "own" && choice !== "own" && { cron: toCron(when) }) });
  const meaning = describeCron(toCron(when));
  return (
    <div className="schedule-when">
      <label className="field">
        <span>{t.cron.when}</span>
        <select className="input" value={choice} onChange={(event) => choose(event.target.value as Choice)}>
          {CHOICES.map((one) => (
            <option key={one} value={one}>
              {t.cron.choices[one]}
            </option>
          ))}
        </select>
      </label>
      {choice === "weekly" && <DayField when={when} onChange={onChange} />}
      {choice === "hourly" && (
        <label className="field">
          <span>{t.cron.minute}</span>
          <input
            className="input"
            type="number"
            min={0}
            max={59}
            value={Number(when.time.split(":")[1])}
            onChange={(event) => onChange({ ...when, time: `00:${event.target.value || "0"}` })}
          />
        </label>
      )}
      {choice !== "hourly" && choice !== "own" && (
        <label className="field">
          <span>{t.cron.time}</span>
          <input
            className="input"
            type="time"
            value={when.time}
            onChange={(event) => onChange({ ...when, time: event.target.value || "00:00" })}
          />
        </label>
      )}
      {choice === "own" && (
        <label className="field">
          <span>{t.build.cron}</span>
          <input
            className="input mono"
            value={when.cron}
            aria-describedby={help}
            onChange={(event) => onChange({ ...when, cron: event.target.value })}
          />
        </label>
      )}
      <small id={help} className="soft" aria-live="polite">
        {choice === "own" && (meaning ?? findCronProblem(when.cron) ?? t.build.cronHelp)}
      </small>
    </div>
  );
}

function DayField({ when, onChange }: WhenFieldsProps) {
  return (
    <label className="field">
      <span>{t.cron.day}</span>
      <select
        className="input"
        value={when.day}
        onChange={(event) => onChange({ ...when, day: Number(event.target.value) })}
      >
        {t.cron.dayNames.map((name, day) => (
          <option key={name} value={day}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}
