// One run, and the runs that it can be compared with: those of its family, and the recent ones of the same workflow.

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { runsQuery } from "../../api/queries";
import type { RunStatus } from "../../run/record";
import { t } from "../../strings";
import { showDirections } from "../../ui/bidi";
import { formatAge, shortenId } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { RunTitle } from "../../ui/run-title";
import { StatusMark } from "../../ui/state";
import { NothingHere } from "../not-found";
import { useFollower } from "../run/use-run";
import { FamilyTree } from "./family-tree";
import { RunCard } from "./run-card";

/** So many recent runs are offered. */
const RECENT_RUNS = 20;

export function ChooseOther({ run }: { run: string }) {
  const follower = useFollower(run);
  if (follower?.connection === "missing") {
    return <NothingHere>{t.run.missing}</NothingHere>;
  }
  if (!follower || follower.history.length === 0) return <p className="page soft">{t.loading}</p>;
  const state = follower.history.shownAt(follower.history.length);
  return (
    <div className="page">
      <header className="page-head">
        <h1>{t.compare.title}</h1>
      </header>
      <div className="compare-runs">
        <RunCard run={run} state={state} />
        <RecentRuns run={run} workflow={state.created?.workflow ?? undefined} />
      </div>
      <FamilyTree run={run} shown={[run]} />
    </div>
  );
}

type RecentRunsProps = { run: string; workflow: string | undefined };

/** The second run is chosen here. A run without a workflow is compared with those of any. */
function RecentRuns({ run, workflow }: RecentRunsProps) {
  const { data } = useQuery(runsQuery({ ...(workflow && { workflow }), limit: RECENT_RUNS + 1 }));
  const others = data?.items.filter((one) => one.run_id !== run).slice(0, RECENT_RUNS);
  return (
    <section className="panel compare-choice" aria-label={t.family.second}>
      <h2>{t.family.second}</h2>
      <p className="soft">{others?.length === 0 ? t.family.noOther : t.family.chooseOther}</p>
      <ul>
        {others?.map((other) => (
          <li key={other.run_id}>
            <Link to="/runs/compare" search={{ left: run, right: other.run_id }} className="compare-other">
              <StatusMark status={other.status as RunStatus} />
              <span className="mono faint">{shortenId(other.run_id)}</span>
              {workflow && other.input ? (
                <span className="cut">{showDirections(other.input)}</span>
              ) : (
                <RunTitle run={other} />
              )}
              <span className="faint compare-age">{formatAge(other.created_at)}</span>
              <Icon name="swap" />
            </Link>
          </li>
        ))}
      </ul>
      <p>
        <Link to="/runs">{t.home.allRuns}</Link>
      </p>
    </section>
  );
}
