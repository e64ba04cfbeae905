// The last runs of a workflow: a bar for each, oldest first, and the state of the newest one.
import { Link } from "@tanstack/react-router";
import type { RunStatus } from "../run/record";
import { formatAge } from "./format";
import { StatusMark } from "./state";

type ShownRun = { run_id: string; status: string; created_at: number };

export function RunHistory({ runs }: { runs: ShownRun[] }) {
  const [last] = runs;
  if (!last) return null;
  return (
    <span className="run-history">
      <span className="run-history-bars" aria-hidden="true">
        {runs
          .slice()
          .reverse()
          .map((run) => (
            <i key={run.run_id} data-state={run.status} />
          ))}
      </span>
      <Link to="/runs/$run" params={{ run: last.run_id }} title={formatAge(last.created_at)}>
        <StatusMark status={last.status as RunStatus} />
      </Link>
    </span>
  );
}
