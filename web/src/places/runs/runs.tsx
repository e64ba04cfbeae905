// Runs: a live table with filters, commands for several runs, and charts over time.

import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { api, read, type Schemas } from "../../api/client";
import { workflowsQuery } from "../../api/queries";
import { isFinal, type RunStatus } from "../../run/record";
import { nameTrigger } from "../../run/trigger";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { ConfirmDialog } from "../../ui/dialog";
import { formatAge, formatDuration, formatTime, shortenId } from "../../ui/format";
import { Empty, ErrorBox } from "../../ui/problem";
import { StatusMark } from "../../ui/state";
import { useTitle } from "../../ui/title";
import { Charts } from "./charts";
import "./runs.css";

type RunItem = Schemas["RunItem"];

const REFRESH_MS = 3000;
const PAGE_RUNS = 50;
const HOUR_MS = 3_600_000;
/** The hours that the filter by time offers. */
const WITHIN_HOURS = [1, 24, 7 * 24, 30 * 24];

export function Runs() {
  useTitle(t.runs.title);
  const search = useSearch({ from: "/runs" });
  const { status, workflow, trigger, within } = search;
  const filter = { ...(status && { status }), ...(workflow && { workflow }), ...(trigger && { trigger }) };
  const runs = useInfiniteQuery({
    queryKey: ["runs", "table", status, workflow, trigger, within],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) => {
      const query = {
        limit: PAGE_RUNS,
        ...filter,
        ...(within && { since: Date.now() - within * HOUR_MS }),
        ...(pageParam && { cursor: pageParam }),
      };
      return read(api.GET("/api/v1/runs", { params: { query } }));
    },
    getNextPageParam: (page) => page.next ?? undefined,
    refetchInterval: REFRESH_MS,
  });
  const isFiltered = Boolean(status || workflow || trigger || within);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const items = useMemo(() => runs.data?.pages.flatMap((page) => page.items) ?? [], [runs.data]);
  return (
    <div className="page">
      <header className="page-head">
        <h1>{t.runs.title}</h1>
        <Filters />
      </header>
      <Charts days={search.days ?? 1} filter={filter} />
      <Selection items={items} selected={selected} onClear={() => setSelected(new Set())} />
      {runs.error && <ErrorBox error={runs.error} />}
      {runs.data && items.length === 0 ? (
        <section className="panel">
          <Empty title={isFiltered ? t.runs.none : t.runs.noneYet}>
            <p>{isFiltered ? t.runs.noneHelp : t.runs.noneYetHelp}</p>
            <pre>{t.runs.noneCommand}</pre>
          </Empty>
        </section>
      ) : (
        <RunTable items={items} selected={selected} onSelect={setSelected} />
      )}
      {runs.hasNextPage && (
        <Button onClick={() => void runs.fetchNextPage()} disabled={runs.isFetchingNextPage}>
          {t.runs.more}
        </Button>
      )}
    </div>
  );
}

function Filters() {
  const search = useSearch({ from: "/runs" });
  const navigate = useNavigate({ from: "/runs" });
  const workflows = useQuery(workflowsQuery).data ?? [];
  const change = (name: "status" | "workflow" | "trigger" | "within", value: string) => {
    const { [name]: _, ...rest } = search;
    const chosen = name === "within" ? Number(value) : value;
    void navigate({ search: value === "" ? rest : { ...rest, [name]: chosen }, replace: true });
  };
  return (
    <div className="runs-filters">
      <FilterSelect
        label={t.runs.status}
        any={t.runs.anyStatus}
        value={search.status}
        options={Object.entries(t.status)}
        onChange={(value) => change("status", value)}
      />
      <FilterSelect
        label={t.runs.filterWorkflow}
        any={t.runs.anyWorkflow}
        value={search.workflow}
        options={workflows.map((workflow) => [workflow.id, workflow.name || workflow.id])}
        onChange={(value) => change("workflow", value)}
      />
      <FilterSelect
        label={t.runs.filterTrigger}
        any={t.runs.anyTrigger}
        value={search.trigger}
        options={listTriggers(search.trigger)}
        onChange={(value) => change("trigger", value)}
      />
      <FilterSelect
        label={t.runs.filterTime}
        any={t.runs.anyTime}
        value={search.within}
        options={WITHIN_HOURS.map((hours) => [String(hours), t.runs.within(hours)])}
        onChange={(value) => change("within", value)}
      />
    </div>
  );
}

/** The interfaces, and the schedule or webhook that the address names. */
function listTriggers(chosen: string | undefined): [string, string][] {
  const kinds = Object.entries(t.run.triggers);
  const [kind = "", ...id] = chosen?.split(":") ?? [];
  return chosen && id.length > 0 ? [...kinds, [chosen, nameTrigger({ kind, id: id.join(":") })]] : kinds;
}

type FilterProps = {
  label: string;
  /** The title of the choice that selects all runs. */
  any: string;
  value: string | number | undefined;
  /** Values and their titles. */
  options: [string, string][];
  onChange: (value: string) => void;
};

function FilterSelect({ label, any, value, options, onChange }: FilterProps) {
  return (
    <select
      className="input runs-filter"
      aria-label={label}
      value={value ?? ""}
      onChange={(event) => onChange(event.target.value)}
    >
      <option value="">{any}</option>
      {options.map(([option, title]) => (
        <option key={option} value={option}>
          {title}
        </option>
      ))}
    </select>
  );
}

type TableProps = {
  items: RunItem[];
  selected: ReadonlySet<string>;
  onSelect: (selected: ReadonlySet<string>) => void;
};

function RunTable({ items, selected, onSelect }: TableProps) {
  const toggle = (id: string) => {
    const next = new Set(selected);
    if (!next.delete(id)) next.add(id);
    onSelect(next);
  };
  const areAll = items.length > 0 && items.every((run) => selected.has(run.run_id));
  return (
    <div className="panel runs-table">
      <table className="table">
        <thead>
          <tr>
            <th scope="col" className="runs-check">
              <input
                type="checkbox"
                aria-label={t.runs.selectAll}
                checked={areAll}
                onChange={() => onSelect(areAll ? new Set() : new Set(items.map((run) => run.run_id)))}
              />
            </th>
            <th scope="col">{t.runs.status}</th>
            <th scope="col">{t.runs.workflow}</th>
            <th scope="col" className="wide-only">
              {t.runs.input}
            </th>
            <th scope="col">{t.runs.started}</th>
            <th scope="col" className="wide-only">
              {t.runs.duration}
            </th>
            <th scope="col" className="wide-only">
              {t.run.startedBy}
            </th>
            <th scope="col" className="wide-only">
              {t.runs.format}
            </th>
            <th scope="col" className="wide-only">
              {t.runs.run}
            </th>
          </tr>
        </thead>
        <tbody>
          {items.map((run) => (
            <RunRow
              key={run.run_id}
              run={run}
              isSelected={selected.has(run.run_id)}
              onToggle={() => toggle(run.run_id)}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

type RowProps = { run: RunItem; isSelected: boolean; onToggle: () => void };

function RunRow({ run, isSelected, onToggle }: RowProps) {
  return (
    <tr>
      <td className="runs-check">
        <input
          type="checkbox"
          aria-label={t.runs.select(shortenId(run.run_id))}
          checked={isSelected}
          onChange={onToggle}
        />
      </td>
      <td className="runs-status">
        <StatusMark status={run.status as RunStatus} />
      </td>
      <td className="runs-name">
        <Link to="/runs/$run" params={{ run: run.run_id }}>
          {run.name}
        </Link>
        {run.input && <small className="narrow-only soft">{run.input}</small>}
      </td>
      <td className="runs-input wide-only soft" title={run.input ?? undefined}>
        {run.input}
      </td>
      <td className="number" title={formatTime(run.created_at)}>
        {formatAge(run.created_at)}
      </td>
      <td className="number wide-only">
        {run.finished_at == null ? "" : formatDuration(run.finished_at - run.created_at)}
      </td>
      <td className="wide-only soft">{run.trigger && nameTrigger(run.trigger)}</td>
      <td className="wide-only soft">{run.format}</td>
      <td className="wide-only mono faint">{shortenId(run.run_id)}</td>
    </tr>
  );
}

type Command = "cancel" | "retry" | "delete";

function sendCommand(command: Command, id: string): Promise<unknown> {
  const params = { params: { path: { id } } };
  return command === "delete"
    ? read(api.DELETE("/api/v1/runs/{id}", params))
    : read(api.POST(`/api/v1/runs/{id}/${command}`, params));
}

function Selection({
  items,
  selected,
  onClear,
}: {
  items: RunItem[];
  selected: ReadonlySet<string>;
  onClear: () => void;
}) {
  const queries = useQueryClient();
  const [asked, setAsked] = useState<"cancel" | "delete">();
  const send = useMutation({
    mutationFn: async ({ command, runs }: { command: Command; runs: RunItem[] }) => {
      const sent = runs.map((run) => sendCommand(command, run.run_id));
      const results = await Promise.allSettled(sent);
      return results.filter((result) => result.status === "rejected").length;
    },
    onSettled: () => {
      onClear();
      void queries.invalidateQueries({ queryKey: ["runs"] });
    },
  });
  const chosen = items.filter((run) => selected.has(run.run_id));
  const cancellable = chosen.filter((run) => !isFinal(run.status as RunStatus));
  const retriable = chosen.filter((run) => isFinal(run.status as RunStatus) && run.status !== "succeeded");
  const deletable = chosen.filter((run) => isFinal(run.status as RunStatus));
  const affected = { cancel: cancellable, delete: deletable };
  const questions = {
    cancel: {
      title: t.runs.confirmCancel(cancellable.length),
      help: t.runs.confirmCancelHelp,
      confirm: t.runs.confirmCancelDo,
      keep: t.runs.keep,
    },
    delete: {
      title: t.runs.confirmDelete(deletable.length),
      help: t.runs.confirmDeleteHelp,
      confirm: t.runs.confirmDeleteDo,
    },
  };
  // The earlier one is the first; the table begins with the newest.
  const [first, second] = chosen;
  const sent = send.variables?.runs.length ?? 0;
  return (
    <div className="runs-selection" aria-live="polite">
      {chosen.length > 0 && (
        <>
          <span>{t.runs.selected(chosen.length)}</span>
          {first && second && chosen.length === 2 && (
            <Link to="/runs/compare" search={{ left: second.run_id, right: first.run_id }} className="button">
              {t.compare.action}
            </Link>
          )}
          <Button
            look="danger"
            icon="stop"
            disabled={cancellable.length === 0}
            onClick={() => setAsked("cancel")}
          >
            {t.runs.cancelSelected}
          </Button>
          <Button
            icon="undo"
            disabled={retriable.length === 0}
            onClick={() => send.mutate({ command: "retry", runs: retriable })}
          >
            {t.runs.retrySelected}
          </Button>
          <Button
            look="danger"
            icon="trash"
            disabled={deletable.length === 0}
            onClick={() => setAsked("delete")}
          >
            {t.runs.deleteSelected}
          </Button>
        </>
      )}
      {chosen.length === 0 && send.isSuccess && <span>{t.runs.done(sent - send.data, send.data)}</span>}
      {asked && (
        <ConfirmDialog
          {...questions[asked]}
          onConfirm={() => send.mutate({ command: asked, runs: affected[asked] })}
          onClose={() => setAsked(undefined)}
        />
      )}
    </div>
  );
}
