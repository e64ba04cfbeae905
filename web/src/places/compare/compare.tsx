// Compares two runs: their steps by path, the first divergence, and the difference of the outputs.

import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { firstDivergence, pairSteps, type StepPair, textOf } from "../../run/compare";
import type { RunState, StepState } from "../../run/fold";
import type { RunFollower } from "../../run/follow";
import { isFinal, type Usage } from "../../run/record";
import { shownPhase } from "../../run/rows";
import { t } from "../../strings";
import { DiffView } from "../../ui/diff-view";
import { formatCost, formatDuration, formatNumber, formatTime } from "../../ui/format";
import { EmptyPlace } from "../../ui/problem";
import { PhaseMark, StatusMark } from "../../ui/state";
import { useTitle } from "../../ui/title";
import { useFollower } from "../run/use-run";
import { FamilyTree } from "./family-tree";
import "./compare.css";

export function Compare() {
  useTitle(t.compare.title);
  const { left = "", right = "" } = useSearch({ from: "/runs/compare" });
  const run = right || left;
  if (left === "" || right === "") return run === "" ? <NothingChosen /> : <ChooseRelative run={run} />;
  return <TwoRuns left={left} right={right} />;
}

function NothingChosen() {
  return (
    <EmptyPlace title={t.compare.title}>
      <p>{t.family.choose}</p>
      <Link to="/runs" className="button">
        {t.home.allRuns}
      </Link>
    </EmptyPlace>
  );
}

/** The family of a run, from which the viewer chooses what to compare. */
function ChooseRelative({ run }: { run: string }) {
  return (
    <div className="page compare">
      <header className="page-head">
        <h1>{t.compare.title}</h1>
      </header>
      <p className="soft">{t.family.choose}</p>
      <FamilyTree run={run} shown={[run]} />
    </div>
  );
}

function TwoRuns({ left, right }: { left: string; right: string }) {
  const one = useFollower(left);
  const other = useFollower(right);
  if (one?.connection === "missing" || other?.connection === "missing") {
    return <EmptyPlace title={t.errors.notFound}>{t.run.missing}</EmptyPlace>;
  }
  if (!one || !other || one.history.length === 0 || other.history.length === 0) {
    return <p className="page soft">{t.loading}</p>;
  }
  return <Compared left={one} right={other} />;
}

function Compared({ left, right }: { left: RunFollower; right: RunFollower }) {
  const search = useSearch({ from: "/runs/compare" });
  const navigate = useNavigate({ from: "/runs/compare" });
  const one = left.history.stateAt(left.history.length);
  const other = right.history.stateAt(right.history.length);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the states depend on the number of events.
  const pairs = useMemo(() => pairSteps(one, other), [one.seq, other.seq, left, right]);
  const first = firstDivergence(pairs);
  const chosen = pairs.find((pair) => pair.path === search.step) ?? first;
  const select = (step: string) =>
    void navigate({ search: (before) => ({ ...before, step }), replace: true });
  return (
    <div className="page compare">
      <header className="page-head">
        <h1>{t.compare.title}</h1>
      </header>
      <div className="compare-runs">
        <RunCard run={left.run} state={one} />
        <RunCard run={right.run} state={other} base={one} />
      </div>
      <FamilyTree run={right.run} shown={[left.run, right.run]} />
      <p className="state" data-state={first ? "waiting" : "succeeded"} role="status">
        {first ? t.compare.diverges(first.path) : t.compare.same(pairs.length)}
      </p>
      <div className="compare-panes">
        <div className="panel compare-steps">
          <table className="table">
            <thead>
              <tr>
                <th scope="col">{t.compare.step}</th>
                <th scope="col">{t.compare.left}</th>
                <th scope="col">{t.compare.right}</th>
                <th scope="col">{t.compare.result}</th>
              </tr>
            </thead>
            <tbody>
              {pairs.map((pair) => (
                <tr
                  key={pair.path}
                  data-selected={pair === chosen || undefined}
                  data-difference={pair.difference}
                >
                  <td>
                    <button
                      type="button"
                      className="text-button mono"
                      aria-pressed={pair === chosen}
                      onClick={() => select(pair.path)}
                    >
                      {pair.path}
                    </button>
                  </td>
                  <StepCell step={pair.left} failed={one.failed} />
                  <StepCell step={pair.right} failed={other.failed} />
                  <td>{t.compare.differences[pair.difference]}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        {chosen && <Outputs pair={chosen} />}
      </div>
    </div>
  );
}

type StepCellProps = { step: StepState | undefined; failed: string | undefined };

function StepCell({ step, failed }: StepCellProps) {
  if (!step) return <td className="faint">–</td>;
  const ms = step.finishedAt === undefined ? undefined : step.finishedAt - step.startedAt;
  return (
    <td className="number">
      <PhaseMark phase={shownPhase(step, failed)} isIconOnly /> {ms !== undefined && formatDuration(ms)}
      {step.usage && <span className="compare-usage soft">{describeUsage(step.usage)}</span>}
    </td>
  );
}

/** Tokens and cost of a step. */
function describeUsage({ input_tokens, output_tokens, micro_usd }: Usage): string {
  const tokens = t.compare.tokens(formatNumber(input_tokens + output_tokens));
  return micro_usd === undefined ? tokens : `${tokens} · ${formatCost(micro_usd)}`;
}

function Outputs({ pair }: { pair: StepPair }) {
  const before = textOf(pair.left?.output);
  const after = textOf(pair.right?.output);
  return (
    <section className="panel compare-outputs" aria-label={t.compare.outputs}>
      <h2 className="mono">{pair.path}</h2>
      <DiffView before={before} after={after} />
    </section>
  );
}

/** A run in short. With `base`, its numbers are shown with the difference from that run. */
function RunCard({ run, state, base }: { run: string; state: RunState; base?: RunState }) {
  const tokens = (one: RunState) => one.usage.input_tokens + one.usage.output_tokens;
  // A run that goes on, or waits, takes until now.
  const endOf = (one: RunState) => one.finishedAt ?? (isFinal(one.status) ? one.at : Date.now());
  const duration = (one: RunState) => endOf(one) - one.createdAt;
  const change = (of: (one: RunState) => number, format: (amount: number) => string) => {
    const amount = base ? of(state) - of(base) : 0;
    return amount === 0 ? "" : ` (${amount > 0 ? "+" : "−"}${format(Math.abs(amount))})`;
  };
  const cost = state.usage.micro_usd;
  const costOf = (one: RunState) => one.usage.micro_usd ?? 0;
  const isCostKnown = base === undefined || base.usage.micro_usd !== undefined;
  return (
    <section className="panel compare-run">
      <h2>
        <Link to="/runs/$run" params={{ run }}>
          {state.created?.name}
        </Link>
      </h2>
      <StatusMark status={state.status} />
      <dl className="facts number">
        <div>
          <dt>{t.run.started}</dt>
          <dd>{formatTime(state.createdAt)}</dd>
        </div>
        <div>
          <dt>{t.run.elapsed}</dt>
          <dd>{formatDuration(duration(state)) + change(duration, formatDuration)}</dd>
        </div>
        <div>
          <dt>{t.run.tokens}</dt>
          <dd>{formatNumber(tokens(state)) + change(tokens, formatNumber)}</dd>
        </div>
        <div>
          <dt>{t.run.cost}</dt>
          <dd>
            {cost === undefined
              ? t.run.unknownCost
              : formatCost(cost) + (isCostKnown ? change(costOf, formatCost) : "")}
          </dd>
        </div>
      </dl>
    </section>
  );
}
