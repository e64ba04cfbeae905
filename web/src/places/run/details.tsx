// Details of the selected step at the position, or of the whole run.
import { useMutation } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { api, read } from "../../api/client";
import type { StepState } from "../../run/fold";
import { isFinal } from "../../run/record";
import { isOver, type Names, nameOf, type ShownPhase, shownPhase, toStaticPath } from "../../run/rows";
import { streamAt } from "../../run/stream";
import { t } from "../../strings";
import { AnswerForm, ResolveForm } from "../../ui/answer-form";
import { Button, IconButton } from "../../ui/button";
import { formatCost, formatDuration, formatNumber, formatTime } from "../../ui/format";
import { ErrorBox, Problem } from "../../ui/problem";
import { PhaseMark } from "../../ui/state";
import { Tabs } from "../../ui/tabs";
import { LongText, ValueView } from "../../ui/value";
import { ForkDialog } from "./fork-dialog";
import { Overview } from "./overview";
import { StepAloneDialog } from "./step-alone";
import { StepEvents } from "./step-events";
import { StepRequests } from "./step-requests";
import type { RunView } from "./use-run";
import { Variables } from "./variables";

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
  return <StepDetails view={view} names={names} path={selected} onClose={() => onSelect(undefined)} />;
}

type StepDetailsProps = { view: RunView; names: Names; path: string; onClose: () => void };

function StepDetails({ view, names, path, onClose }: StepDetailsProps) {
  const name = nameOf(path, names);
  const search = useSearch({ from: "/runs/$run" });
  const navigate = useNavigate({ from: "/runs/$run" });
  const tab = TABS.find((one) => one === search.tab) ?? "output";
  const step = view.state.steps.find((one) => one.path === path);
  const [isForking, setIsForking] = useState(false);
  const [isAlone, setIsAlone] = useState(false);
  const workflow = view.state.created?.workflow;
  const setTab = (name: Tab) =>
    void navigate({ search: (before) => ({ ...before, tab: name }), replace: true });
  return (
    <>
      <header className="details-head">
        <div className="details-title">
          <h2 className={name === undefined ? "cut mono" : "cut"} title={name ?? path}>
            {name ?? path}
          </h2>
          <IconButton icon="close" label={t.close} onClick={onClose} />
        </div>
        {name !== undefined && <p className="faint mono cut">{path}</p>}
        <div className="details-actions">
          <Button
            look="quiet"
            icon="play"
            disabled={!workflow}
            title={workflow ? undefined : t.alone.noWorkflow}
            onClick={() => setIsAlone(true)}
          >
            {t.alone.open}
          </Button>
          {step?.kind && (
            <Button look="quiet" icon="branch" onClick={() => setIsForking(true)}>
              {t.fork.open}
            </Button>
          )}
          {step && <RetryFrom view={view} path={path} />}
        </div>
        {isAlone && workflow && (
          <StepAloneDialog
            workflow={workflow}
            path={toStaticPath(path)}
            run={view.follower.run}
            onClose={() => setIsAlone(false)}
          />
        )}
        {isForking && step && (
          <ForkDialog
            run={view.follower.run}
            step={step}
            inputs={view.state.created?.inputs ?? null}
            onClose={() => setIsForking(false)}
          />
        )}
        {step && <Facts step={step} phase={shownPhase(step, view.state.failed)} time={view.state.at} />}
      </header>
      <Tabs
        label={path}
        selected={tab}
        onSelect={setTab}
        tabs={TABS.map((name) => ({ name, title: t.run.tabs[name] }))}
      />
      <div className="details-body">
        {!step && tab !== "events" && tab !== "variables" && <p className="soft">{t.run.notYet}</p>}
        {step && tab === "output" && <StepOutput view={view} step={step} />}
        {step && tab === "request" && <StepRequests run={view.follower.run} step={step} />}
        {step && tab === "attempts" && <Attempts step={step} />}
        {tab === "variables" && <Variables view={view} />}
        {tab === "events" && <StepEvents view={view} path={path} />}
      </div>
    </>
  );
}

/** Performs a step of a run that has ended again, with everything that started after it. */
function RetryFrom({ view, path }: { view: RunView; path: string }) {
  const { follower, state, at, seek } = view;
  const retry = useMutation({
    mutationFn: () => {
      const params = { path: { id: follower.run } };
      return read(api.POST("/api/v1/runs/{id}/retry", { params, body: { from: path } }));
    },
    onSuccess: () => {
      seek(undefined);
      follower.refresh();
    },
  });
  if (at !== undefined || !isFinal(state.status)) return null;
  return (
    <>
      <Button look="quiet" icon="undo" disabled={retry.isPending} onClick={() => retry.mutate()}>
        {t.run.actions.retryFrom}
      </Button>
      {retry.error && <ErrorBox error={retry.error} />}
    </>
  );
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
      {step.usage && (
        <div>
          <dt>{t.run.tokens}</dt>
          <dd className="number">
            {t.run.inOut(formatNumber(step.usage.input_tokens), formatNumber(step.usage.output_tokens))}
            {step.usage.micro_usd !== undefined && ` · ${formatCost(step.usage.micro_usd)}`}
          </dd>
        </div>
      )}
    </dl>
  );
}

function StepOutput({ view, step }: { view: RunView; step: StepState }) {
  const { follower, at } = view;
  const live = streamAt(follower.history, view.state, step);
  const onDone = () => follower.refresh();
  const isLive = at === undefined;
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
      {!isLive && (step.question || step.phase === "uncertain") && <p className="soft">{t.answer.later}</p>}
      {isLive && step.question && (
        <AnswerForm run={follower.run} path={step.path} question={step.question} onDone={onDone} />
      )}
      {isLive && step.phase === "uncertain" && (
        <ResolveForm run={follower.run} path={step.path} onDone={onDone} />
      )}
      {live !== undefined && (
        <section className="value" aria-label={t.run.streaming}>
          <header className="value-head">
            <h3>{t.run.streaming}</h3>
            {live.isApproximate && (
              <span className="badge" title={t.run.approximateHelp}>
                {t.run.approximate}
              </span>
            )}
          </header>
          <div className="value-body" data-testid="stream">
            <LongText text={live.text} />
          </div>
        </section>
      )}
      {step.output !== undefined && <ValueView value={step.output} label={t.run.output} />}
      {step.output === undefined && step.phase === "finished" && <p className="soft">{t.run.noOutputEver}</p>}
      {step.output === undefined && step.phase === "running" && live === undefined && (
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
