// Home: the workflows as cards, what waits for the viewer, and the latest runs.

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { callerQuery, useMay } from "../../api/caller";
import { api, read, type Schemas } from "../../api/client";
import { deletedWorkflowsQuery, runsQuery, waitingQuery, workflowsQuery } from "../../api/queries";
import { NewWorkflowLink } from "../../builder/new-workflow-link";
import type { RunStatus } from "../../run/record";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { formatAge } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { NoModel, useHasModel } from "../../ui/no-model";
import { toPlainText } from "../../ui/plain-text";
import { Empty, ErrorBox } from "../../ui/problem";
import { RunHistory } from "../../ui/run-history";
import { RunTitle } from "../../ui/run-title";
import { StatusMark } from "../../ui/state";
import { useTitle } from "../../ui/title";
import { useSeen } from "../../ui/visible";
import { findDraft, nameDraftPlace } from "../workflow/kept-draft";
import { AddWorkflow } from "./add-workflow";
import { CardTests } from "./card-tests";
import { chooseExample } from "./examples";
import "./home.css";

type Workflow = Schemas["WorkflowInfo"];
type RunItem = Schemas["RunItem"];

/** Runs of a workflow that its card shows. */
const CARD_RUNS = 8;
const CARD_REFRESH_MS = 15_000;
const RECENT_RUNS = 10;
/** So many of the runs that wait are above the workflows. */
const SHOWN_WAITING = 5;

export function Home() {
  useTitle(t.home.title);
  const workflows = useQuery(workflowsQuery);
  const runs = useQuery(runsQuery({ limit: RECENT_RUNS }));
  const schedules = useQuery({
    queryKey: ["schedules"],
    queryFn: () => read(api.GET("/api/v1/schedules")),
    retry: false,
  });
  const hasWaiting = (useQuery(waitingQuery).data?.length ?? 0) > 0;
  const mayWrite = useMay("write");
  const [query, setQuery] = useState("");
  const items = workflows.data ?? [];
  const found = items.filter((item) => `${item.name} ${item.id}`.toLowerCase().includes(query.toLowerCase()));
  const scheduled = new Set(schedules.data?.items.map((schedule) => schedule.workflow));
  return (
    <AddWorkflow>
      {(addButton) => (
        <div className="page">
          <header className="page-head">
            <h1>{t.home.title}</h1>
            {items.length > 0 && (
              <input
                className="input home-search"
                type="search"
                aria-label={t.home.search}
                placeholder={t.home.search}
                value={query}
                onChange={(event) => setQuery(event.target.value)}
              />
            )}
            {mayWrite && (
              <>
                <Link to="/create" className="button">
                  <Icon name="wand" />
                  {t.home.describe}
                </Link>
                <NewWorkflowLink />
                {addButton}
              </>
            )}
          </header>
          {!mayWrite && <p className="soft">{t.key.noWrite}</p>}
          {workflows.error && <ErrorBox error={workflows.error} />}
          <NoModel />
          {workflows.data && items.length === 0 && mayWrite && <FirstStart />}
          {hasWaiting && <Waiting />}
          {items.length > 0 && found.length === 0 && <p className="soft">{t.home.noMatch}</p>}
          <ul className="cards">
            {found.map((workflow) => (
              <Card key={workflow.id} workflow={workflow} isScheduled={scheduled.has(workflow.id)} />
            ))}
          </ul>
          <div className="home-lists">
            {!hasWaiting && <Waiting />}
            {runs.data && <Recent runs={runs.data.items} />}
          </div>
          <Deleted />
        </div>
      )}
    </AddWorkflow>
  );
}

function Card({ workflow, isScheduled }: { workflow: Workflow; isScheduled: boolean }) {
  const [element, isSeen] = useSeen<HTMLLIElement>();
  const { data: caller } = useQuery(callerQuery);
  const hasDrafts = workflow.file == null && caller !== undefined;
  const draft = hasDrafts ? findDraft(nameDraftPlace(caller, workflow.id)) : undefined;
  // Other workflows may have run more often lately, so that each is asked about its own runs.
  const runs = useQuery({
    ...runsQuery({ workflow: workflow.id, limit: CARD_RUNS }),
    refetchInterval: CARD_REFRESH_MS,
    enabled: isSeen,
  });
  const { name, id, description } = workflow;
  const about = toPlainText(description) || (name && name !== id ? id : "");
  return (
    <li className="card panel" ref={element}>
      {/* The link covers the card, so its title shows a description that is cut off. */}
      <Link
        to="/workflows/$workflow"
        params={{ workflow: workflow.id }}
        className="card-link"
        title={about || undefined}
      >
        <h2>{name || id}</h2>
      </Link>
      <p className="card-about soft">{about}</p>
      <div className="card-facts">
        <span className="badge">{t.format(workflow.format)}</span>
        {isScheduled && (
          <span className="badge">
            <Icon name="clock" />
            {t.home.scheduled}
          </span>
        )}
        {draft && <span className="badge">{t.home[draft]}</span>}
        {workflow.problems.length > 0 && (
          <span className="card-problems" data-refused={workflow.is_refused || undefined}>
            <Icon name="warn" />
            {workflow.is_refused ? t.home.refused : t.home.problems(workflow.problems.length)}
          </span>
        )}
        <CardTests workflow={workflow} />
        <RunHistory runs={runs.data?.items ?? []} />
      </div>
    </li>
  );
}

function FirstStart() {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const example = chooseExample(useHasModel() ?? true);
  const add = useMutation({
    mutationFn: () => {
      const { id } = example;
      return read(api.PUT("/api/v1/workflows/{id}", { params: { path: { id } }, body: example as never }));
    },
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: workflowsQuery.queryKey });
      void navigate({ to: "/workflows/$workflow", params: { workflow: example.id } });
    },
  });
  return (
    <section className="panel">
      <Empty title={t.home.firstTitle}>
        <p>{t.home.firstHelp}</p>
        <div className="home-starts">
          <Button look="main" disabled={add.isPending} onClick={() => add.mutate()}>
            {t.home.addExample}
          </Button>
          <Link to="/create" className="button">
            {t.home.describe}
          </Link>
          <NewWorkflowLink />
        </div>
        {add.error && <ErrorBox error={add.error} />}
        <p>{t.home.firstMore}</p>
        <pre>{t.home.firstCommand}</pre>
      </Empty>
    </section>
  );
}

/** The workflows that were deleted; the page of each can restore it. */
function Deleted() {
  const items = useQuery(deletedWorkflowsQuery).data ?? [];
  if (items.length === 0) return null;
  return (
    <details className="home-deleted">
      <summary className="soft">{t.home.deleted(items.length)}</summary>
      <ul>
        {items.map(({ id, stored_at }) => (
          <li key={id}>
            <Link to="/workflows/$workflow" params={{ workflow: id }} className="home-run">
              <span className="faint number">{formatAge(stored_at)}</span>
              <span className="cut">{id}</span>
            </Link>
          </li>
        ))}
      </ul>
    </details>
  );
}

function Waiting() {
  const { data } = useQuery(waitingQuery);
  return (
    <section className="panel home-list">
      <header>
        <h2>{t.home.waiting}</h2>
        {(data?.length ?? 0) > SHOWN_WAITING && (
          <Link to="/inbox">{t.home.allWaiting(data?.length ?? 0)}</Link>
        )}
      </header>
      {data?.length === 0 && <p className="soft home-none">{t.home.nothingWaiting}</p>}
      <ul>
        {data?.slice(0, SHOWN_WAITING).map((run) => (
          <li key={run.run_id}>
            <Link to="/inbox" search={{ item: run.run_id }} className="home-run">
              <StatusMark status={run.status as RunStatus} />
              <RunTitle run={run} />
              <span className="faint number">{formatAge(run.created_at)}</span>
            </Link>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Recent({ runs }: { runs: RunItem[] }) {
  return (
    <section className="panel home-list">
      <header>
        <h2>{t.home.recent}</h2>
        <Link to="/runs">{t.home.allRuns}</Link>
      </header>
      {runs.length === 0 && <p className="soft home-none">{t.home.noRuns}</p>}
      <ul>
        {runs.map((run) => (
          <li key={run.run_id}>
            <Link to="/runs/$run" params={{ run: run.run_id }} className="home-run">
              <StatusMark status={run.status as RunStatus} />
              <RunTitle run={run} />
              <span className="faint number">{formatAge(run.created_at)}</span>
            </Link>
          </li>
        ))}
      </ul>
    </section>
  );
}
