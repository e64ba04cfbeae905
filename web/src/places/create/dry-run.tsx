// The dry run of a pipeline: a run that is moved through like any other, and the outputs of its nodes at the position.
import { lazy, Suspense, useMemo, useRef, useState } from "react";
import type { RunState } from "../../run/fold";
import { findFollowed } from "../../run/followed";
import { type Graph, NodeFinder } from "../../run/graph";
import { PIPELINE_NODES, type Planner } from "../../run/planner";
import { isFinal, type RunRecord } from "../../run/record";
import { toKnownRun } from "../../run/recorded";
import { listRows, withAttempts } from "../../run/rows";
import { t } from "../../strings";
import { Scrubber } from "../run/scrubber";
import { type RunView, useView } from "../run/use-run";
import { useSelectionKeys } from "../run/use-selection-keys";
import { Waterfall } from "../run/waterfall";
import { NodeOutputs } from "./node-outputs";

const FlowGraph = lazy(() => import("../../ui/flow-graph").then((found) => ({ default: found.FlowGraph })));

type DryRunProps = { planner: Planner; graph: Graph; events: readonly RunRecord[] };

export default function DryRun({ planner, graph, events }: DryRunProps) {
  const run = useMemo(() => toKnownRun(events), [events]);
  const view = useView(run, undefined);
  return view && <ShownDryRun planner={planner} graph={graph} view={view} />;
}

function ShownDryRun({ planner, graph, view }: { planner: Planner; graph: Graph; view: RunView }) {
  const { state } = view;
  const part = useRef<HTMLDivElement>(null);
  const [selected, setSelected] = useState<string>();
  const [folds, setFolds] = useState<ReadonlyMap<string, boolean>>(new Map());
  const finder = useMemo(() => new NodeFinder(graph), [graph]);
  const states = useMemo(() => finder.statesOf(state), [finder, state]);
  const followed = useMemo(() => findFollowed(graph, state, states), [graph, state, states]);
  const names = useMemo(() => new Map(graph.nodes.map((node) => [node.path, nameOfNode(node)])), [graph]);
  const rows = listRows(view.rows, state.steps.length, folds, names);
  useSelectionKeys(rows, selected, setSelected, part);
  return (
    <div ref={part} className="create-dry-run">
      <div className="create-graph panel">
        <Suspense fallback={<p className="soft">{t.loading}</p>}>
          <FlowGraph
            graph={graph}
            states={states}
            followed={followed}
            selected={selected === undefined ? undefined : finder.nodeOf(selected)}
            onSelect={(node) => setSelected(node === undefined ? undefined : graph.nodes[node]?.path)}
            time={state.at}
          />
        </Suspense>
      </div>
      <section className="create-rehearsal" aria-label={t.create.rehearsal}>
        <h2>{t.create.rehearsal}</h2>
        <p className="soft">{t.create.rehearsalHelp}</p>
        <div className="panel create-steps">
          <Waterfall
            view={view}
            shown={withAttempts(rows, state.steps, folds)}
            selected={selected}
            onSelect={setSelected}
            onFold={(path, isOpen) => setFolds(new Map(folds).set(path, isOpen))}
            time={state.at}
            isFollowed={false}
          />
          <Scrubber view={view} within={part} />
        </div>
        <Outputs planner={planner} state={state} selected={selected} />
      </section>
    </div>
  );
}

function nameOfNode({ path, title }: Graph["nodes"][number]): string {
  return `${path.slice(PIPELINE_NODES.length + 1)} · ${title}`;
}

type OutputsProps = { planner: Planner; state: RunState; selected: string | undefined };

/** What each node has returned at the position, or the selected one, and what the user would have been told in the end. */
function Outputs({ planner, state, selected }: OutputsProps) {
  const hasEnded = (path: string) =>
    state.steps.some((step) => step.path === path && step.phase !== "running");
  const nodes = planner.rehearsed.filter(({ id }) => {
    const path = `${PIPELINE_NODES}/${id}`;
    return (selected === undefined || selected === path) && hasEnded(path);
  });
  const isOver = isFinal(state.status) && selected === undefined;
  return (
    <>
      {nodes.length === 0 && <p className="soft">{t.create.noOutputYet}</p>}
      <NodeOutputs nodes={nodes} notifications={isOver ? planner.notifications : []} />
    </>
  );
}
