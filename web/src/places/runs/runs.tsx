// Runs: a live table with filters, commands for several runs, and charts over time.

import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { api, read } from "../../api/client";
import { workflowsQuery } from "../../api/queries";
import { nameTrigger } from "../../run/trigger";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { Empty, ErrorBox } from "../../ui/problem";
import { useTitle } from "../../ui/title";
import { Charts } from "./charts";
import { RunTable } from "./run-table";
import { Selection } from "./selection";
import "./runs.css";

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
            {isFiltered ? (
              <Link to="/runs" className="button">
                {t.runs.allRuns}
              </Link>
            ) : (
              <>
                <p>{t.runs.noneYetHelp}</p>
                <pre>{t.runs.noneCommand}</pre>
              </>
            )}
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
    void navigate({ search: value === "" ? rest : { ...rest, [name]: chosen } });
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
