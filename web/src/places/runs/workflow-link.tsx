// A workflow in a table of statistics: its name, which selects its runs.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { workflowsQuery } from "../../api/queries";

/** The names of workflows by id. */
export function useWorkflowNames(): ReadonlyMap<string, string> {
  const { data } = useQuery(workflowsQuery);
  return new Map(data?.map(({ id, name }) => [id, name || id]));
}

export function WorkflowLink({ id, names }: { id: string; names: ReadonlyMap<string, string> }) {
  const name = names.get(id);
  // Runs of a workflow that is no longer there have only its id.
  if (name === undefined) return <>{id}</>;
  return (
    <Link to="/runs" search={(before) => ({ ...before, workflow: id })} replace>
      {name}
    </Link>
  );
}
