// Compares two runs: their steps by path, the first divergence, and the difference of the outputs.

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { stepQuery } from "../../api/queries";
import {
  type ComparedRow,
  firstDivergence,
  listComparedRows,
  pairSteps,
  type StepPair,
  textOf,
} from "../../run/compare";
import type { RunState, StepState } from "../../run/fold";
import type { RunFollower } from "../../run/follow";
import type { Usage } from "../../run/record";
import type { Summary } from "../../run/rows";
import { t } from "../../strings";
import { DiffView } from "../../ui/diff-view";
import { formatCost, formatDuration, formatNumber } from "../../ui/format";
import { MoreButton, usePart } from "../../ui/long-list";
import { EmptyPlace } from "../../ui/problem";
import { PhaseMark } from "../../ui/state";
import { TableHead } from "../../ui/table-head";
import { useTitle } from "../../ui/title";
import { NothingHere } from "../not-found";
import { writeRequest } from "../run/step-requests";
import { useNames } from "../run/use-names";
import { useFollower } from "../run/use-run";
import { ChooseOther } from "./choose-other";
import { FamilyTree } from "./family-tree";
import { RunCard } from "./run-card";
import "./compare.css";

export function Compare() {
  useTitle(t.compare.title);
  const { left = "", right = "" } = useSearch({ from: "/runs/compare" });
  const run = right || left;
  if (left === "" || right === "") return run === "" ? <NothingChosen /> : <ChooseOther run={run} />;
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

function TwoRuns({ left, right }: { left: string; right: string }) {
  const one = useFollower(left);
  const other = useFollower(right);
  if (one?.connection === "missing" || other?.connection === "missing") {
    return <NothingHere>{t.run.missing}</NothingHere>;
  }
  if (!one || !other || one.history.length === 0 || other.history.length === 0) {
    return <p className="page soft">{t.loading}</p>;
  }
  return <Compared left={one} right={other} />;
}

function Compared({ left, right }: { left: RunFollower; right: RunFollower }) {
  const search = useSearch({ from: "/runs/compare" });
  const [one, other] = [useNewest(left), useNewest(right)];
  const names = useNames(right.run);
  const pairs = useMemo(() => pairSteps(one, other), [one, other]);
  const rows = useMemo(() => listComparedRows(pairs, one, other, names), [pairs, one, other, names]);
  const first = firstDivergence(pairs);
  const row = rows.find(({ path }) => path === search.step);
  const pair = row ? row.pair : first;
  return (
    <div className="page">
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
        <StepTable rows={rows} chosen={row?.path ?? first?.path} />
        {pair && <StepDifference pair={pair} left={left.run} right={right.run} />}
      </div>
    </div>
  );
}

/** The state of a run after its last event so far. */
function useNewest({ history }: RunFollower): RunState {
  const { length } = history;
  return useMemo(() => history.shownAt(length), [history, length]);
}

type StepTableProps = { rows: ComparedRow[]; chosen: string | undefined };

/** So many steps are shown at first. */
const SHOWN_STEPS = 500;

function StepTable({ rows, chosen }: StepTableProps) {
  const part = usePart(rows.length, SHOWN_STEPS);
  const navigate = useNavigate({ from: "/runs/compare" });
  const select = (step: string) =>
    void navigate({ search: (before) => ({ ...before, step }), replace: true });
  return (
    <div className="panel compare-steps">
      <table className="table">
        <TableHead columns={[t.compare.step, t.compare.left, t.compare.right, t.compare.result]} />
        <tbody>
          {rows.slice(0, part.count).map(({ path, label, depth, left, right, difference, pair }) => (
            <tr key={path} data-selected={path === chosen || undefined} data-difference={difference}>
              <td style={{ paddingLeft: 12 + depth * 16 }}>
                <button
                  type="button"
                  className="text-button"
                  title={path}
                  aria-pressed={path === chosen}
                  onClick={() => select(path)}
                >
                  {label}
                </button>
              </td>
              <SummaryCell summary={left} usage={pair?.left?.usage} />
              <SummaryCell summary={right} usage={pair?.right?.usage} />
              <td>{t.compare.differences[difference]}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <MoreButton part={part} unit={t.units.rows} />
    </div>
  );
}

type CellProps = { summary: Summary | undefined; usage: Usage | undefined };

function SummaryCell({ summary, usage }: CellProps) {
  if (!summary) return <td className="faint">–</td>;
  const { phase, startedAt, endedAt } = summary;
  return (
    <td className="number">
      <PhaseMark phase={phase} isIconOnly /> {endedAt !== undefined && formatDuration(endedAt - startedAt)}
      {usage && <span className="compare-usage soft">{describeUsage(usage)}</span>}
    </td>
  );
}

/** Tokens and cost of a step. */
function describeUsage({ input_tokens, output_tokens, micro_usd }: Usage): string {
  const tokens = t.compare.tokens(formatNumber(input_tokens + output_tokens));
  return micro_usd === undefined ? tokens : `${tokens} · ${formatCost(micro_usd)}`;
}

type StepDifferenceProps = { pair: StepPair; left: string; right: string };

/** What two runs did at a step: what they sent, which often explains the rest, and what came out. */
function StepDifference({ pair, left, right }: StepDifferenceProps) {
  return (
    <section className="panel compare-outputs" aria-label={pair.path}>
      <h2 className="mono">{pair.path}</h2>
      {pair.left?.kind && pair.right?.kind && (
        <RequestDifference left={{ run: left, step: pair.left }} right={{ run: right, step: pair.right }} />
      )}
      <h3>{t.compare.outputs}</h3>
      <DiffView before={textOf(pair.left?.output)} after={textOf(pair.right?.output)} />
    </section>
  );
}

type Side = { run: string; step: StepState };

/** The difference of what the last attempts of a step sent. */
function RequestDifference({ left, right }: { left: Side; right: Side }) {
  const one = useQuery(stepQuery(left.run, left.step)).data?.requests.at(-1);
  const other = useQuery(stepQuery(right.run, right.step)).data?.requests.at(-1);
  if (!one || !other) return null;
  const [before, after] = [writeRequest(one), writeRequest(other)];
  return (
    <>
      <h3>{t.compare.requests}</h3>
      {before === after ? (
        <p className="soft">{t.compare.sameRequests}</p>
      ) : (
        <DiffView before={before} after={after} />
      )}
    </>
  );
}
