// The planner at work: its stages, the blocks with their trials, the growing graph, and what to do with the result.
import { useMutation } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useMemo, useState } from "react";
import { attemptHeader } from "../../api/attempt";
import { api, read, readStarted } from "../../api/client";
import type { RunState } from "../../run/fold";
import { inferFollowed } from "../../run/followed";
import { drawPlanner, foldPlanner, type Planner } from "../../run/planner";
import { isFinal } from "../../run/record";
import { findDryRunEvents } from "../../run/recorded";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { formatCost, formatDuration, formatNumber } from "../../ui/format";
import { Icon, type IconName } from "../../ui/icon";
import { ErrorBox, Problem } from "../../ui/problem";
import { useFollower, useNow } from "../run/use-run";
import { BlockCard } from "./block-card";
import { NodeOutputs } from "./node-outputs";
import { startPlanner } from "./start";

const FlowGraph = lazy(() => import("../../ui/flow-graph").then((found) => ({ default: found.FlowGraph })));
const DryRun = lazy(() => import("./dry-run"));

export function Building({ run }: { run: string }) {
  const follower = useFollower(run);
  const length = follower?.history.length ?? 0;
  const state = follower && length > 0 ? follower.history.shownAt(length) : undefined;
  const isOver = state !== undefined && isFinal(state.status);
  const time = useNow(!isOver);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the records only grow, so they depend on their number.
  const planner = useMemo(() => foldPlanner(follower?.history.records ?? []), [follower, length]);
  const { graph, states } = useMemo(() => drawPlanner(planner), [planner]);
  const isWired = planner.nodes.length > 0;
  // Only the last attempt to connect the blocks has passed.
  // biome-ignore lint/correctness/useExhaustiveDependencies: a run that is wired has had its last dry run.
  const events = useMemo(() => isWired && state && findDryRunEvents(state), [follower, isWired]);
  const followed = useMemo(() => inferFollowed(graph, states, isOver), [graph, states, isOver]);
  if (follower?.connection === "missing") return <Problem>{t.run.missing}</Problem>;
  if (!follower || !state) return <p className="soft">{t.loading}</p>;
  return (
    <>
      <header className="page-head">
        <h1 className="create-intent" title={planner.intent}>
          {planner.intent || t.create.title}
        </h1>
        <Link to="/create" search={{}} className="button">
          {t.create.another}
        </Link>
      </header>
      <Stages planner={planner} state={state} run={run} time={time} />
      {isOver && <Result planner={planner} state={state} run={run} />}
      <div className="create-work" hidden={isOver && planner.blocks.length === 0}>
        <section className="create-blocks" aria-label={t.create.blocks}>
          <h2>{t.create.blocks}</h2>
          {planner.blocks.map((block) => (
            <BlockCard key={block.id} block={block} />
          ))}
          {planner.blocks.length === 0 && <p className="soft">{t.create.thinking}</p>}
        </section>
        <section className="create-plan" aria-label={t.create.plan}>
          <h2>{t.create.plan}</h2>
          <Suspense fallback={<p className="soft">{t.loading}</p>}>
            {isWired && events ? (
              <DryRun planner={planner} graph={graph} events={events} />
            ) : (
              <div className="create-graph panel">
                {graph.nodes.length > 0 && (
                  <FlowGraph
                    graph={graph}
                    states={states}
                    followed={followed}
                    onSelect={() => undefined}
                    time={time}
                  />
                )}
              </div>
            )}
          </Suspense>
          {/* The record of an earlier version has no events of the dry run. */}
          {!events && planner.rehearsed.length > 0 && (
            <section className="create-rehearsal" aria-label={t.create.rehearsal}>
              <h2>{t.create.rehearsal}</h2>
              <NodeOutputs nodes={planner.rehearsed} notifications={planner.notifications} />
            </section>
          )}
        </section>
      </div>
    </>
  );
}

const STAGE_ICONS: Record<string, [IconName, string]> = {
  running: ["spin", "running"],
  done: ["check", "finished"],
  skipped: ["skip", "skipped"],
  failed: ["cross", "failed"],
};

type StagesProps = { planner: Planner; state: RunState; run: string; time: number };

function Stages({ planner, state, run, time }: StagesProps) {
  const isOver = isFinal(state.status);
  const stop = useMutation({
    mutationFn: () => read(api.POST("/api/v1/runs/{id}/cancel", { params: { path: { id: run } } })),
  });
  const { usage } = state;
  const ms = (state.finishedAt ?? time) - state.createdAt;
  return (
    <section className="create-stages panel" aria-label={t.create.stagesTitle} aria-live="polite">
      <ol>
        {planner.stages.map((stage) => {
          const [icon, look] = STAGE_ICONS[stage.status] ?? ["step", "queued"];
          return (
            <li key={stage.name}>
              <span className="state" data-state={look} title={stage.message}>
                <Icon name={icon} />
                {t.create.stages[stage.name] ?? stage.name}
              </span>
            </li>
          );
        })}
      </ol>
      <span className="faint number">
        {formatDuration(Math.max(0, ms))} · {formatNumber(usage.input_tokens + usage.output_tokens)}{" "}
        {t.run.tokens.toLowerCase()}
        {usage.micro_usd ? ` · ${formatCost(usage.micro_usd)}` : ""}
      </span>
      <Link to="/runs/$run" params={{ run }} className="button" data-look="quiet">
        {t.create.watch}
      </Link>
      {!isOver && (
        <Button look="danger" icon="stop" disabled={stop.isPending} onClick={() => stop.mutate()}>
          {t.create.stop}
        </Button>
      )}
    </section>
  );
}

type ResultProps = { planner: Planner; state: RunState; run: string };

/** The saved pipeline with what can be done with it, or why there is none. */
function Result({ planner, state }: ResultProps) {
  const navigate = useNavigate({ from: "/create" });
  const [change, setChange] = useState("");
  const { pipeline } = planner;
  const restart = useMutation({
    mutationFn: startPlanner,
    onSuccess: (run) => void navigate({ search: { run } }),
  });
  const runIt = useMutation({
    mutationFn: (workflow: string) => {
      const body = { workflow, inputs: {} as never };
      return readStarted(api.POST("/api/v1/runs", { body, headers: attemptHeader() }));
    },
    onSuccess: (run) => void navigate({ to: "/runs/$run", params: { run: run.run_id } }),
  });
  const refine = () => change.trim() !== "" && restart.mutate(`${planner.intent}\n\n${change}`);
  const error = restart.error ?? runIt.error;
  return (
    <section className="create-result panel" aria-label={t.create.result}>
      {pipeline ? (
        <div className="create-actions">
          <span className="state" data-state="finished">
            <Icon name="check" />
            {t.create.done(pipeline)}
          </span>
          <Button look="main" icon="play" disabled={runIt.isPending} onClick={() => runIt.mutate(pipeline)}>
            {t.create.runIt}
          </Button>
          <Link to="/workflows/$workflow" params={{ workflow: pipeline }} className="button">
            {t.create.open}
          </Link>
        </div>
      ) : (
        <>
          <h2>{t.create.failed}</h2>
          {state.error && <Problem code={state.error.code}>{state.error.message}</Problem>}
          {planner.missing.length > 0 && <p>{t.create.missingBlocks(planner.missing.join(", "))}</p>}
          <div className="create-actions">
            <Button icon="undo" disabled={restart.isPending} onClick={() => restart.mutate(planner.intent)}>
              {t.create.retry}
            </Button>
          </div>
        </>
      )}
      <form
        className="create-refine"
        onSubmit={(event) => {
          event.preventDefault();
          refine();
        }}
      >
        <label className="field">
          <span>{t.create.change}</span>
          <input className="input" value={change} onChange={(event) => setChange(event.target.value)} />
          <small>{t.create.refineHelp}</small>
        </label>
        <button type="submit" className="button" disabled={restart.isPending || change.trim() === ""}>
          {t.create.refine}
        </button>
      </form>
      {error && <ErrorBox error={error} />}
    </section>
  );
}
