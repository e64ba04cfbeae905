// The header of a run: its state, time, tokens and cost against the budget, and what can be done with it.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, read } from "../../api/client";
import { runQuery } from "../../api/queries";
import type { RunState } from "../../run/fold";
import { isFinal } from "../../run/record";
import { findFailedSteps, type Names, nameOf } from "../../run/rows";
import { t } from "../../strings";
import { Button, CopyButton } from "../../ui/button";
import { useCommands } from "../../ui/commands";
import { copyText } from "../../ui/copy";
import { ConfirmDialog } from "../../ui/dialog";
import { formatCost, formatDuration, formatNumber, formatShortNumber, formatTime } from "../../ui/format";
import { ErrorBox, Problem } from "../../ui/problem";
import { StatusMark } from "../../ui/state";
import { SaveTest } from "./save-test";
import type { RunView } from "./use-run";
import "./run-header.css";

/** A run that goes on is asked in these intervals whether anyone performs it. */
const INTERRUPTION_CHECK_MS = 5000;

type RunHeaderProps = { view: RunView; time: number; names: Names; onSelect: (path: string) => void };

export function RunHeader({ view, time, names, onSelect }: RunHeaderProps) {
  const { state, follower } = view;
  const { isInterrupted, reason } = useInterruption(view);
  const created = state.created;
  const end = state.finishedAt ?? time;
  return (
    <header className="run-header">
      <div className="run-title">
        <h1 className="cut">
          {created?.workflow ? (
            <Link
              to="/workflows/$workflow"
              params={{ workflow: created.workflow }}
              title={t.run.actions.openWorkflow}
            >
              {created.name}
            </Link>
          ) : (
            created?.name
          )}
        </h1>
        <span className="badge">{created?.format}</span>
        <span aria-live="polite">
          <StatusMark status={isInterrupted ? "interrupted" : state.status} />
        </span>
      </div>
      <dl className="run-facts number">
        <div>
          <dt>{t.run.elapsed}</dt>
          <dd title={formatTime(state.createdAt)}>{formatDuration(Math.max(0, end - state.createdAt))}</dd>
        </div>
        <TokensFact view={view} />
        <CostFact view={view} />
        <div>
          <dt>{t.run.events}</dt>
          <dd>{formatNumber(state.seq)}</dd>
        </div>
      </dl>
      <RunActions view={view} isInterrupted={isInterrupted} />
      <Cause state={state} names={names} onSelect={onSelect} />
      {follower.connection === "lost" && <Problem severity="warning">{t.run.lost}</Problem>}
      {reason && <Problem severity="warning">{reason}</Problem>}
    </header>
  );
}

type CauseProps = { state: RunState; names: Names; onSelect: (path: string) => void };

/** The first step because of which the run failed, with its error. */
function Cause({ state, names, onSelect }: CauseProps) {
  const [step] = findFailedSteps(state);
  if (!state.error || !step?.error) return null;
  const name = nameOf(step.path, names) ?? step.path.slice(step.path.lastIndexOf("/") + 1);
  const text = t.run.cause(name, step.error.message);
  return (
    <button
      type="button"
      className="text-button run-cause cut"
      title={text}
      onClick={() => onSelect(step.path)}
    >
      {text}
    </button>
  );
}

function TokensFact({ view: { state } }: { view: RunView }) {
  const { input_tokens, output_tokens } = state.usage;
  const used = input_tokens + output_tokens;
  const limit = state.created?.limits.tokens;
  const title = t.run.inOut(formatNumber(input_tokens), formatNumber(output_tokens));
  return (
    <div>
      <dt>{t.run.tokens}</dt>
      <dd title={title}>
        {limit ? t.run.budget(formatShortNumber(used), formatShortNumber(limit)) : formatNumber(used)}
        {limit && <Budget used={used} limit={limit} label={t.run.tokens} />}
      </dd>
    </div>
  );
}

function CostFact({ view: { state } }: { view: RunView }) {
  const used = state.usage.micro_usd;
  const limit = state.created?.limits.micro_usd;
  const text = used === undefined ? t.run.unknownCost : formatCost(used);
  return (
    <div>
      <dt>{t.run.cost}</dt>
      <dd>
        {limit ? t.run.budget(text, formatCost(limit)) : text}
        {limit && used !== undefined && <Budget used={used} limit={limit} label={t.run.cost} />}
      </dd>
    </div>
  );
}

function Budget({ used, limit, label }: { used: number; limit: number; label: string }) {
  return <meter min={0} max={limit} high={limit * 0.9} value={used} aria-label={label} />;
}

/** Whether the process that performed the run is gone, and why no other one continues it. Its events cannot say that. */
function useInterruption({ follower, state, at }: RunView) {
  const isOpen = at === undefined && !isFinal(state.status);
  const { data } = useQuery({
    ...runQuery(follower.run),
    enabled: isOpen,
    refetchInterval: INTERRUPTION_CHECK_MS,
  });
  return {
    isInterrupted:
      isOpen &&
      data?.status === "interrupted" &&
      (state.status === "running" || data.interruption !== undefined),
    reason: isOpen ? data?.interruption : undefined,
  };
}

type ActionsProps = { view: RunView; isInterrupted: boolean };

function RunActions({ view, isInterrupted }: ActionsProps) {
  const { follower, state, at } = view;
  const id = follower.run;
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [isConfirming, setIsConfirming] = useState(false);
  const params = { params: { path: { id } } };
  const onSuccess = () => {
    view.seek(undefined);
    follower.refresh();
  };
  const cancel = useMutation({
    mutationFn: () => read(api.POST("/api/v1/runs/{id}/cancel", params)),
    onSuccess,
  });
  const retry = useMutation({
    mutationFn: () => read(api.POST("/api/v1/runs/{id}/retry", params)),
    onSuccess,
  });
  const resume = useMutation({
    mutationFn: () => read(api.POST("/api/v1/runs/{id}/resume", params)),
    onSuccess: () => {
      onSuccess();
      void queries.invalidateQueries({ queryKey: runQuery(id).queryKey });
    },
  });
  const replay = useMutation({ mutationFn: () => read(api.POST("/api/v1/runs/{id}/replay", params)) });
  const isLive = at === undefined;
  const isEnded = isFinal(state.status);
  const canRetry = isLive && isEnded && state.status !== "succeeded";
  const copyLink = () => void copyText(window.location.href);
  const compare = () => void navigate({ to: "/runs/compare", search: { right: id } });
  useCommands([
    { title: t.run.actions.copyLink, icon: "copy", run: copyLink },
    { title: t.compare.title, icon: "swap", run: compare },
    !isLive && { title: t.run.goLive, icon: "last", run: () => view.seek(undefined) },
    isLive && isEnded && { title: t.run.actions.replay, icon: "check", run: () => replay.mutate() },
    canRetry && { title: t.run.actions.retry, icon: "undo", run: () => retry.mutate() },
    isInterrupted && { title: t.run.actions.resume, icon: "play", run: () => resume.mutate() },
    isLive && !isEnded && { title: t.run.actions.cancel, icon: "stop", run: () => setIsConfirming(true) },
  ]);
  const error = cancel.error ?? retry.error ?? resume.error ?? replay.error;
  return (
    <div className="run-actions">
      <CopyButton text={() => window.location.href} label={t.run.actions.copyLink} />
      {isLive && isEnded && (
        <SaveTest run={id} name={state.created?.name ?? ""} workflow={state.created?.workflow} />
      )}
      {isLive && isEnded && (
        <Button look="quiet" onClick={() => replay.mutate()} disabled={replay.isPending}>
          {replay.data ? t.run.replayed(replay.data.events) : t.run.actions.replay}
        </Button>
      )}
      {canRetry && (
        <Button icon="undo" onClick={() => retry.mutate()} disabled={retry.isPending}>
          {t.run.actions.retry}
        </Button>
      )}
      {isInterrupted && (
        <Button icon="play" onClick={() => resume.mutate()} disabled={resume.isPending}>
          {t.run.actions.resume}
        </Button>
      )}
      {isLive && !isEnded && (
        <Button look="danger" icon="stop" onClick={() => setIsConfirming(true)} disabled={cancel.isPending}>
          {t.run.actions.cancel}
        </Button>
      )}
      {error && <ErrorBox error={error} />}
      {isConfirming && (
        <ConfirmDialog
          title={t.run.confirmCancel}
          help={t.run.confirmCancelHelp}
          confirm={t.run.actions.cancel}
          keep={t.run.keep}
          onConfirm={() => cancel.mutate()}
          onClose={() => setIsConfirming(false)}
        />
      )}
    </div>
  );
}
