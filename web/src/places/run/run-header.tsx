// The header of a run: its state, time, tokens and cost against the budget, and what can be done with it.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { runQuery } from "../../api/queries";
import type { RunState } from "../../run/fold";
import { nameRun } from "../../run/name";
import { isFinal } from "../../run/record";
import { findFailedSteps, type Names, titleOf } from "../../run/rows";
import { t } from "../../strings";
import { formatCost, formatDuration, formatNumber, formatShortNumber, formatTime } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { explainRefusedKey, Problem } from "../../ui/problem";
import { StatusMark } from "../../ui/state";
import { RunActions } from "./run-actions";
import type { RunView } from "./use-run";
import "./run-header.css";

/** Interval at which a run in progress is checked for a worker that drives it. */
const INTERRUPTION_CHECK_MS = 5000;

type RunHeaderProps = { view: RunView; time: number; names: Names; onSelect: (path: string) => void };

export function RunHeader({ view, time, names, onSelect }: RunHeaderProps) {
  const { newest, state, at, follower } = view;
  const { isInterrupted, reason } = useInterruption(view);
  const created = newest.created;
  const end = newest.finishedAt ?? time;
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
              {nameRun(created.name)}
            </Link>
          ) : (
            created && nameRun(created.name)
          )}
        </h1>
        {created && <span className="badge">{t.format(created.format)}</span>}
        <span aria-live="polite">
          <StatusMark status={isInterrupted ? "interrupted" : newest.status} />
        </span>
        {at !== undefined && (
          <span className="badge" title={t.run.past}>
            {t.run.atEvent(formatNumber(state.seq), formatNumber(follower.history.length))}
          </span>
        )}
        <Warnings state={newest} onSelect={onSelect} />
      </div>
      <dl className="run-facts number">
        <div>
          <dt>{t.run.elapsed}</dt>
          <dd title={formatTime(newest.createdAt)}>{formatDuration(Math.max(0, end - newest.createdAt))}</dd>
        </div>
        <TokensFact view={view} />
        <CostFact view={view} />
        {/* The position of the viewer shows it, too. */}
        {at === undefined && (
          <div>
            <dt>{t.run.events}</dt>
            <dd>{formatNumber(newest.seq)}</dd>
          </div>
        )}
      </dl>
      <RunActions view={view} isInterrupted={isInterrupted} />
      <Cause state={newest} names={names} onSelect={onSelect} />
      {follower.connection === "lost" && <Problem severity="warning">{t.run.lost}</Problem>}
      {follower.connection === "refused" && <Problem severity="warning">{explainRefusedKey()}</Problem>}
      {reason && <Problem severity="warning">{reason}</Problem>}
    </header>
  );
}

type WarningsProps = { state: RunState; onSelect: (path: string) => void };

/** How many warnings the run has; leads to the first step with one. */
function Warnings({ state, onSelect }: WarningsProps) {
  const warned = state.steps.filter((step) => step.warnings.length > 0);
  const [first] = warned;
  if (!first) return null;
  const count = warned.reduce((sum, step) => sum + step.warnings.length, 0);
  return (
    <button
      type="button"
      className="state run-warnings"
      data-state="waiting"
      onClick={() => onSelect(first.path)}
    >
      <Icon name="warn" />
      {t.run.warningCount(count)}
    </button>
  );
}

type CauseProps = { state: RunState; names: Names; onSelect: (path: string) => void };

/** The first step because of which the run failed, with its error. */
function Cause({ state, names, onSelect }: CauseProps) {
  const [step] = findFailedSteps(state);
  if (!state.error || !step?.error) return null;
  const text = t.run.cause(titleOf(step.path, names), step.error.message);
  return (
    <button type="button" className="text-button run-cause" onClick={() => onSelect(step.path)}>
      {text}
    </button>
  );
}

function TokensFact({ view: { newest } }: { view: RunView }) {
  const { input_tokens, output_tokens } = newest.usage;
  const used = input_tokens + output_tokens;
  const limit = newest.created?.limits.tokens;
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

function CostFact({ view: { newest } }: { view: RunView }) {
  const used = newest.usage.micro_usd;
  const limit = newest.created?.limits.micro_usd;
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
function useInterruption({ follower, newest }: RunView) {
  const isOpen = !isFinal(newest.status);
  const { data } = useQuery({
    ...runQuery(follower.run),
    enabled: isOpen,
    refetchInterval: INTERRUPTION_CHECK_MS,
  });
  return {
    isInterrupted:
      isOpen &&
      data?.status === "interrupted" &&
      (newest.status === "running" || data.interruption !== undefined),
    reason: isOpen ? data?.interruption : undefined,
  };
}
