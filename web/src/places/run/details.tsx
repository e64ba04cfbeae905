// Details of the selected step at the position, or of the whole run.
import { useMutation } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useMay } from "../../api/caller";
import { api, read } from "../../api/client";
import type { StepState } from "../../run/fold";
import { isFinal } from "../../run/record";
import {
  findRow,
  isOver,
  listParts,
  type Names,
  type ShownPhase,
  shownPhase,
  summarizeRow,
  titleOf,
  toStaticPath,
} from "../../run/rows";
import { streamAt } from "../../run/stream";
import { t } from "../../strings";
import { ActionRow } from "../../ui/action-row";
import { ResolveForm } from "../../ui/answer-form";
import { showDirections } from "../../ui/bidi";
import { IconButton } from "../../ui/button";
import { useFollowedEnd } from "../../ui/followed-end";
import { formatDuration, formatTime } from "../../ui/format";
import type { MenuItem } from "../../ui/menu";
import { ErrorBox, Problem } from "../../ui/problem";
import { PhaseMark } from "../../ui/state";
import { Tabs } from "../../ui/tabs";
import { ValueView } from "../../ui/value";
import { ForkDialog } from "./fork-dialog";
import { type Group, GroupFacts, GroupOutput } from "./group-details";
import { Overview } from "./overview";
import { StepAloneDialog } from "./step-alone";
import { StepEvents } from "./step-events";
import { StepQuestion } from "./step-question";
import { StepRequests } from "./step-requests";
import { UsageFact } from "./usage-fact";
import type { RunView } from "./use-run";
import { Variables } from "./variables";
import "./details.css";

const TABS = ["output", "request", "attempts", "variables", "events"] as const;
type Tab = (typeof TABS)[number];

type DetailsProps = {
  view: RunView;
  names: Names;
  selected: string | undefined;
  onSelect: (path: string | undefined) => void;
};

export function Details({ view, names, selected, onSelect }: DetailsProps) {
  if (selected === undefined) return <Overview view={view} onSelect={onSelect} />;
  return <StepDetails view={view} names={names} path={selected} onSelect={onSelect} />;
}

/** The row of a path, if it holds others at the position. */
function findGroup({ rows, state }: RunView, path: string): Group | undefined {
  const row = findRow(rows, path);
  const summary = row && summarizeRow(state, row);
  if (!row || !summary) return undefined;
  const parts = listParts(state, row);
  return parts.length > 0 ? { row, summary, parts } : undefined;
}

type StepDetailsProps = {
  view: RunView;
  names: Names;
  path: string;
  onSelect: (path: string | undefined) => void;
};

function StepDetails({ view, names, path, onSelect }: StepDetailsProps) {
  const title = titleOf(path, names);
  const search = useSearch({ from: "/runs/$run" });
  const navigate = useNavigate({ from: "/runs/$run" });
  const tab = TABS.find((one) => one === search.tab) ?? "output";
  const step = view.state.steps.find((one) => one.path === path);
  const group = findGroup(view, path);
  const isSending = step && !(group && step.tries.length === 0);
  const setTab = (name: Tab) =>
    void navigate({ search: (before) => ({ ...before, tab: name }), replace: true });
  return (
    <>
      <header className="details-head">
        <div className="details-title">
          <h2 className="cut" title={title}>
            {title}
          </h2>
          <IconButton icon="close" label={t.close} onClick={() => onSelect(undefined)} />
        </div>
        <p className="faint mono cut" title={path}>
          {path}
        </p>
        <StepActions view={view} names={names} path={path} step={step} title={title} />
        {group && <GroupFacts group={group} state={view.state} time={view.state.at} />}
        {step && !group && (
          <Facts step={step} phase={shownPhase(step, view.state.failed)} time={view.state.at} />
        )}
      </header>
      <Tabs
        label={path}
        selected={tab}
        onSelect={setTab}
        tabs={TABS.map((name) => ({ name, title: t.run.tabs[name] }))}
      />
      <div className="details-body">
        {!step && !group && tab !== "events" && tab !== "variables" && <p className="soft">{t.run.notYet}</p>}
        {step && tab === "output" && <StepOutput view={view} step={step} isGroup={group !== undefined} />}
        {group && tab === "output" && (
          <GroupOutput group={group} state={view.state} names={names} onSelect={onSelect} />
        )}
        {group && !isSending && (tab === "request" || tab === "attempts") && (
          <p className="soft">{t.run.partsSent}</p>
        )}
        {isSending && tab === "request" && <StepRequests run={view.follower.run} step={step} />}
        {isSending && tab === "attempts" && <Attempts step={step} />}
        {tab === "variables" && <Variables view={view} />}
        {tab === "events" && <StepEvents view={view} path={path} />}
      </div>
    </>
  );
}

type StepActionsProps = {
  view: RunView;
  names: Names;
  path: string;
  step: StepState | undefined;
  title: string;
};

/** What can be done with a step. */
function StepActions({ view, names, path, step, title }: StepActionsProps) {
  const [dialog, setDialog] = useState<"alone" | "fork">();
  const retry = useRetryFrom(view, path);
  const { created, status } = view.newest;
  const workflow = created?.workflow;
  const run = view.follower.run;
  const aloneItem: MenuItem = {
    title: t.alone.open,
    icon: "play",
    isDisabled: !workflow,
    hint: workflow ? undefined : t.alone.noWorkflow,
    run: () => setDialog("alone"),
  };
  const forkItem: MenuItem = { title: t.fork.open, icon: "branch", run: () => setDialog("fork") };
  const retryItem: MenuItem = {
    title: t.run.actions.retryFrom,
    icon: "undo",
    isDisabled: retry.isPending,
    run: () => retry.mutate(),
  };
  const canRetry = step !== undefined && isFinal(status);
  // What no definition names, such as a fan-out as a whole, is no step.
  const isStep = step?.kind !== undefined || names.has(toStaticPath(path));
  const items = [
    isStep ? aloneItem : undefined,
    step?.kind ? forkItem : undefined,
    canRetry ? retryItem : undefined,
  ];
  const mayRun = useMay("run");
  const close = () => setDialog(undefined);
  return (
    <>
      {mayRun && <ActionRow items={items.filter((one) => one !== undefined)} />}
      {retry.error && <ErrorBox error={retry.error} />}
      {dialog === "alone" && workflow && (
        <StepAloneDialog
          workflow={workflow}
          path={toStaticPath(path)}
          name={title}
          run={run}
          onClose={close}
        />
      )}
      {dialog === "fork" && step && (
        <ForkDialog run={run} step={step} inputs={created?.inputs ?? null} onClose={close} />
      )}
    </>
  );
}

/** Performs a step of a run that has ended again, with everything that follows it. */
function useRetryFrom({ follower, seek }: RunView, path: string) {
  return useMutation({
    mutationFn: () => {
      const params = { path: { id: follower.run } };
      return read(api.POST("/api/v1/runs/{id}/retry", { params, body: { from: path } }));
    },
    onSuccess: () => {
      seek(undefined);
      follower.refresh();
    },
  });
}

type FactsProps = { step: StepState; phase: ShownPhase; time: number };

function Facts({ step, phase, time }: FactsProps) {
  const ms = (step.finishedAt ?? time) - step.startedAt;
  return (
    <dl className="facts">
      <div>
        <dt>{t.run.state}</dt>
        <dd>
          <PhaseMark phase={phase} />
        </dd>
      </div>
      {step.kind && (
        <div>
          <dt>{t.run.kind}</dt>
          <dd>{t.kind(step.kind)}</dd>
        </div>
      )}
      {step.target && (
        <div>
          <dt>{t.run.target}</dt>
          <dd className="cut" title={step.target}>
            {step.target}
          </dd>
        </div>
      )}
      {step.isReused && (
        <div>
          <dt>{t.fork.reused}</dt>
          <dd>{t.fork.fromRecord}</dd>
        </div>
      )}
      {isOver(step) && (
        <div>
          <dt>{t.run.duration}</dt>
          <dd className="number">{formatDuration(ms)}</dd>
        </div>
      )}
      {step.usage && <UsageFact usage={step.usage} />}
    </dl>
  );
}

/** So much of a text that is being written is shown. */
const MAX_LIVE_CHARACTERS = 20_000;

/** The end of a text that is being written. */
function LiveText({ text }: { text: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, and is then reached by the keyboard.
    <div className="value-body live-text" data-testid="stream" ref={useFollowedEnd(0)} tabIndex={0}>
      <pre className="long-text" dir="auto">
        {showDirections(text.slice(-MAX_LIVE_CHARACTERS))}
      </pre>
    </div>
  );
}

type StepOutputProps = { view: RunView; step: StepState; isGroup: boolean };

/** What a step did. The output of one that holds others is shown with those. */
function StepOutput({ view, step, isGroup }: StepOutputProps) {
  const { follower, at } = view;
  const live = streamAt(follower.history, view.state, step);
  const onDone = () => follower.refresh();
  const isLive = at === undefined;
  const isUncertain = step.phase === "uncertain" && !isFinal(view.state.status);
  const isTolerated = shownPhase(step, view.state.failed) === "tolerated";
  return (
    <>
      {step.error && step.phase !== "finished" && (
        <Problem code={step.error.code} severity={isTolerated ? "warning" : "error"}>
          {step.error.message}
          {step.isFailureIgnored && <p className="soft">{isTolerated ? t.run.ignored : t.run.caused}</p>}
        </Problem>
      )}
      {step.phase === "skipped" && <p className="soft">{`${t.run.skipped}: ${step.reason ?? ""}`}</p>}
      {step.warnings.map((warning) => (
        <Problem key={warning} severity="warning">
          {warning}
        </Problem>
      ))}
      {!isLive && (step.question || isUncertain) && <p className="soft">{t.answer.later}</p>}
      {isLive && <StepQuestion key={step.path} view={view} step={step} onDone={onDone} />}
      {isLive && isUncertain && <ResolveForm run={follower.run} path={step.path} onDone={onDone} />}
      {live !== undefined && (
        <section className="value" aria-label={step.phase === "running" ? t.run.streaming : t.run.cutAnswer}>
          <header className="value-head">
            <h3>{step.phase === "running" ? t.run.streaming : t.run.cutAnswer}</h3>
            {live.isApproximate && (
              <span className="badge" title={t.run.approximateHelp}>
                {t.run.approximate}
              </span>
            )}
          </header>
          <LiveText text={live.text} />
        </section>
      )}
      {!isGroup && step.output !== undefined && <ValueView value={step.output} label={t.run.output} />}
      {!isGroup && step.output === undefined && step.phase === "finished" && (
        <p className="soft">{t.run.noOutputEver}</p>
      )}
      {!isGroup && step.output === undefined && step.phase === "running" && live === undefined && (
        <p className="soft">{t.run.noOutput}</p>
      )}
    </>
  );
}

function Attempts({ step }: { step: StepState }) {
  if (step.tries.length === 0) return <p className="soft">{t.run.notSent}</p>;
  return (
    <ol className="attempts">
      {step.tries.map((one) => (
        <li key={one.number}>
          <h3>{t.run.attempt(one.number)}</h3>
          <p className="soft number">
            {formatTime(one.startedAt)}
            {one.endedAt !== undefined && ` · ${formatDuration(one.endedAt - one.startedAt)}`}
          </p>
          {one.response?.queued_ms !== undefined && (
            <p className="soft number">{t.run.queuedFor(formatDuration(one.response.queued_ms))}</p>
          )}
          {one.response?.first_token_ms !== undefined && (
            <p className="soft number">{t.run.firstToken(formatDuration(one.response.first_token_ms))}</p>
          )}
          {one.error && <Problem code={one.error.code}>{one.error.message}</Problem>}
        </li>
      ))}
    </ol>
  );
}
