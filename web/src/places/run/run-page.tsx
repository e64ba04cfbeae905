// The run page: graph, steps over time, details of the selected step, and the position in the run.
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useCallback, useEffect, useRef, useState } from "react";
import { runQuery } from "../../api/queries";
import type { Connection, KnownRun, RunFollower } from "../../run/follow";
import { nameRun } from "../../run/name";
import { isFinal, type RunStatus } from "../../run/record";
import { listRows, withAttempts } from "../../run/rows";
import { t } from "../../strings";
import { explainRefusedKey } from "../../ui/problem";
import { Tabs } from "../../ui/tabs";
import { useTitle } from "../../ui/title";
import { NothingHere } from "../not-found";
import { Details } from "./details";
import { RunHeader } from "./run-header";
import { Scrubber } from "./scrubber";
import { useNames } from "./use-names";
import { type RunView, timeOf, useNow, useRunView } from "./use-run";
import { useSelectionKeys } from "./use-selection-keys";
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
  if (follower?.connection === "missing") return <NothingHere>{t.run.missing}</NothingHere>;
  const texts: Partial<Record<Connection, string>> = { lost: t.run.lost, refused: explainRefusedKey() };
  return <p className="page soft">{texts[follower?.connection ?? "loading"] ?? t.loading}</p>;
}

type Pane = "graph" | "waterfall" | "details";

function ShownRun({ view }: { view: RunView }) {
  const { follower, state, newest, at } = view;
  const search = useSearch({ from: "/runs/$run" });
  const navigate = useNavigate({ from: "/runs/$run" });
  const [chosenPane, setPane] = useState<Pane>();
  const [hasStep] = useState(search.step !== undefined);
  const opened = useStatusAtOpening(follower.run);
  const isAsked = opened === "waiting";
  const isFollowed = useIsFollowed(follower, opened);
  const pane = chosenPane ?? (hasStep || isAsked ? "details" : "waterfall");
  const [folds, setFolds] = useState<ReadonlyMap<string, boolean>>(new Map());
  const present = useNow(!isFinal(newest.status));
  const time = timeOf(view, present);
  const selected = search.step;
  useTitle(newest.created && `${nameRun(newest.created.name)}: ${t.status[newest.status]}`);
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
  useAddress(at);
  const names = useNames(follower.run);
  const rows = listRows(view.rows, state.steps.length, folds, names);
  const shown = withAttempts(rows, state.steps, folds);
  useSelectionKeys(rows, selected, select);
  const fold = (path: string, isOpen: boolean) => setFolds(new Map(folds).set(path, isOpen));
  const graph = (
    <GraphView run={follower.run} state={state} selected={selected} onSelect={open} time={time} />
  );
  return (
    <div className="run" data-pane={pane}>
      <RunHeader view={view} time={present} names={names} onSelect={open} />
      <PaneTabs pane={pane} onSelect={setPane} />
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
            isFollowed={isFollowed}
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

/** Chooses the pane where only one has room. */
function PaneTabs({ pane, onSelect }: { pane: Pane; onSelect: (pane: Pane) => void }) {
  return (
    <div className="run-panes-tabs">
      <Tabs
        label={t.palette.run}
        selected={pane}
        onSelect={onSelect}
        tabs={[
          { name: "waterfall", title: t.run.waterfall },
          { name: "details", title: t.run.details },
          { name: "graph", title: t.run.graph },
        ]}
      />
    </div>
  );
}

/** Keeps the position in the address. */
function useAddress(at: number | undefined) {
  const search = useSearch({ from: "/runs/$run" });
  const navigate = useNavigate({ from: "/runs/$run" });
  // An address that is right already stays: to write it again would cancel a link that was just followed.
  const isAddressRight = search.at === at;
  useEffect(() => {
    if (isAddressRight) return;
    const timer = setTimeout(() => {
      void navigate({ search: (before) => withValue(before, "at", at), replace: true });
    }, ADDRESS_DELAY_MS);
    return () => clearTimeout(timer);
  }, [at, isAddressRight, navigate]);
}

/**
 * Whether the list of steps follows the run. While the events of a run that has ended arrive, it seems to go on, and its list
 * would end up at the bottom.
 */
function useIsFollowed({ connection }: KnownRun, opened: RunStatus | undefined): boolean {
  const hasEnded = useRef(false);
  hasEnded.current ||= connection === "ended";
  return hasEnded.current || (opened !== undefined && !isFinal(opened));
}

/** The status that the run had when this page was opened, as soon as the server has sent it. */
function useStatusAtOpening(run: string): RunStatus | undefined {
  const { data, isFetchedAfterMount } = useQuery(runQuery(run));
  const [status, setStatus] = useState<RunStatus>();
  if (status === undefined && data && isFetchedAfterMount) setStatus(data.status as RunStatus);
  return status;
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
