// Leads to the runs that a schedule or a webhook has started.
import { Link } from "@tanstack/react-router";
import { t } from "../../strings";

export function TriggeredRuns({ kind, id }: { kind: "schedule" | "webhook"; id: string }) {
  return (
    <Link to="/runs" search={{ trigger: `${kind}:${id}` }} aria-label={t.build.itsRunsOf(id)}>
      {t.build.itsRuns}
    </Link>
  );
}
