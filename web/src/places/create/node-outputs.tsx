// What the nodes of a pipeline have returned in its dry run, and what the user would have been told.
import type { Json } from "../../api/json";
import type { Rehearsed } from "../../run/planner";
import { t } from "../../strings";
import { ValueView } from "../../ui/value";

type NodeOutputsProps = { nodes: readonly Rehearsed[]; notifications: readonly Json[] };

export function NodeOutputs({ nodes, notifications }: NodeOutputsProps) {
  return (
    <>
      {nodes.map((node) => (
        <div key={node.id} className="panel create-node">
          <h3>
            {node.id} <span className="soft">{node.block}</span>
            {node.mocked && <span className="badge">{describeMock(node)}</span>}
          </h3>
          {node.output !== undefined && <ValueView value={node.output} label={t.create.outputOf(node.id)} />}
        </div>
      ))}
      {notifications.map((notification, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: notifications have no identity but their position.
        <ValueView key={at} value={notification} label={t.create.notification} />
      ))}
    </>
  );
}

function describeMock(node: Rehearsed): string {
  return node.mocked === "example" ? t.create.mocked : t.create.generated;
}
