// The run page: graph, steps over time, details of the selected step, and the position in the run.
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useCallback, useEffect, useMemo, useState } from "react";
import { runGraphQuery } from "../../api/queries";
import type { RunFollower } from "../../run/follow";
import { nodeIdOf } from "../../run/graph";
import { isFinal } from "../../run/record";
import { listRows, type Names, withAttempts } from "../../run/rows";
import { t } from "../../strings";
import { isTyping, useKeys } from "../../ui/keyboard";
import { EmptyPlace } from "../../ui/problem";
import { Tabs } from "../../ui/tabs";
import { useTitle } from "../../ui/title";
import { Details } from "./details";
import { RunHeader } from "./run-header";
import { Scrubber } from "./scrubber";
import { type RunView, timeOf, useNow, useRunView } from "./use-run";
import { Waterfall } from "./waterfall";
import "./run.css";

const GraphView = lazy(() => import("./run-graph"));

/** The address follows the position after this time without a move. */
const ADDRESS_DELAY_MS = 200;

export function RunPage() {
  const { run } = useParams({ from: "/runs/$run" });
  return <OneRun key={run} run={run} />;
}

function OneRun({ run }: { run: string }) {
  const search = useSearch({ from: "/runs/$run" });
  const { follower, view } = useRunView(run, search.at);
  return view ? <ShownRun view={view} /> : <Opening follower={follower} />;
}

function Opening({ follower }: { follower: RunFollower | undefined }) {
  if (follower?.connection === "missing")
    return <EmptyPlace title={t.errors.notFound}>{t.run.missing}</EmptyPlace>;
  return <p className="page soft">{follower?.connection === "lost" ? t.run.lost : t.loading}</p>;
}

type Pane = "graph" | "waterfall" | "details";

function ShownRun({ view }: { view: RunView }) {
  const { follower, state, at } = view;
  const search = useSearch({ from: "/runs/$run" });
  const navigate = useNavigate({ from: "/runs/$run" });
  const [pane, setPane] = useState<Pane>(() =>
    search.step || state.status === "waiting" ? "details" : "waterfall",
  );
  const [folds, setFolds] = useState<ReadonlyMap<string, boolean>>(new Map());
  const present = useNow(at === undefined && !isFinal(state.status));
  const time = timeOf(view, present);
  const selected = search.step;
  useTitle(state.created && `${state.created.name}: ${t.status[state.status]}`);
  const select = useCallback(
    (step: string | undefined) => {
      void navigate({ search: (before) => withValue(before, "step", step), replace: true });
    },
    [navigate],
  );
  // Where only one pane has room, a step that was chosen is shown.
  const open = (step: string | undefined) => {
    select(step);
    if (step !== undefined) setPane("details");
  };
  // An address that is right already stays: to write it again would cancel a link that was just followed.
  const isAddressRight = search.at === at;
  useEffect(() => {
    if (isAddressRight) return;
    const timer = setTimeout(() => {
      void navigate({ search: (before) => withValue(before, "at", at), replace: true });
    }, ADDRESS_DELAY_MS);
    return () => clearTimeout(timer);
  }, [at, isAddressRight, navigate]);
  const names = useNames(follower.run);
  const rows = listRows(view.rows, state.steps.length, folds, names);
  const shown = withAttempts(rows, state.steps, folds);
  useKeys((event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (isTyping(event) || step === undefined || event.ctrlKey || event.metaKey) return;
    if (event.target instanceof Element && event.target.closest(".details, .react-flow")) return;
    event.preventDefault();
    const place = rows.findIndex(({ row }) => row.path === selected);
    const next = rows[place < 0 ? 0 : Math.max(0, Math.min(rows.length - 1, place + step))];
    if (next) select(next.row.path);
  });
  const fold = (path: string, isOpen: boolean) => setFolds(new Map(folds).set(path, isOpen));
  const graph = (
    <GraphView run={follower.run} state={state} selected={selected} onSelect={open} time={time} />
  );
  return (
    <div className="run" data-pane={pane}>
      <RunHeader view={view} time={time} names={names} onSelect={open} />
      <div className="run-panes-tabs">
        <Tabs
          label={t.palette.run}
          selected={pane}
          onSelect={setPane}
          tabs={[
            { name: "waterfall", title: t.run.waterfall },
            { name: "details", title: t.run.details },
            { name: "graph", title: t.run.graph },
          ]}
        />
      </div>
      <div className="run-panes">
        <section className="run-pane graph-pane" aria-label={t.run.graph}>
          <Suspense fallback={<p className="empty">{t.loading}</p>}>{graph}</Suspense>
        </section>
        <section className="run-pane waterfall-pane" aria-label={t.run.waterfall}>
          <Waterfall
            view={view}
            shown={shown}
            selected={selected}
            onSelect={open}
            onFold={fold}
            time={time}
          />
        </section>
        <section className="run-pane details" aria-label={t.run.details}>
          <Details view={view} names={names} selected={selected} onSelect={select} />
        </section>
      </div>
      <Scrubber view={view} />
    </div>
  );
}

/** The names that the definition gives its steps, as the graph shows them. */
function useNames(run: string): Names {
  const { data: graph } = useQuery(runGraphQuery(run));
  return useMemo(() => new Map(graph?.nodes.map((node) => [node.path, nameNode(node)])), [graph]);
}

/** A node with its id, which errors name, if its title is another one. */
function nameNode(node: { path: string; title: string }): string {
  const id = nodeIdOf(node);
  return id === undefined ? node.title : `${id} · ${node.title}`;
}

/** An address with another value, or without it. */
function withValue<Search extends object, Name extends keyof Search>(
  search: Search,
  name: Name,
  value: Search[Name] | undefined,
): Search {
  const { [name]: _, ...rest } = search;
  return (value === undefined ? rest : { ...rest, [name]: value }) as Search;
}
