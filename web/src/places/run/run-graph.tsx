// The graph of a run: its definition, with the states of the steps.
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { runGraphQuery } from "../../api/queries";
import { foldFanOuts } from "../../run/fan-out";
import type { RunState } from "../../run/fold";
import { findFollowed } from "../../run/followed";
import { NodeFinder } from "../../run/graph";
import { toStaticPath } from "../../run/rows";
import { t } from "../../strings";
import { FlowGraph } from "../../ui/flow-graph";

type RunGraphProps = {
  run: string;
  state: RunState;
  selected: string | undefined;
  onSelect: (path: string | undefined) => void;
  /** The time at the position. */
  time: number;
};

export default function RunGraph({ run, state, selected, onSelect, time }: RunGraphProps) {
  const { data: whole, isError } = useQuery(runGraphQuery(run));
  const graph = useMemo(() => whole && foldFanOuts(whole, t.run.parallelSteps), [whole]);
  const finder = useMemo(() => (graph ? new NodeFinder(graph) : undefined), [graph]);
  const states = useMemo(() => finder?.statesOf(state), [finder, state]);
  const followed = useMemo(
    () => graph && states && findFollowed(graph, state, states),
    [graph, state, states],
  );
  // A drawing stays, whatever happens to the server or to the key.
  if (!graph || !finder) return <p className="empty">{isError ? t.run.noGraph : t.loading}</p>;
  const select = (node: number | undefined) => {
    const path = node === undefined ? undefined : graph.nodes[node]?.path;
    onSelect(path === undefined ? undefined : latestStepOf(state, path));
  };
  const chosen = selected === undefined ? undefined : finder.nodeOf(selected);
  return (
    <FlowGraph
      graph={graph}
      states={states}
      followed={followed}
      selected={chosen}
      onSelect={select}
      time={time}
    />
  );
}

/** The newest step of a node: its last iteration or visit. */
function latestStepOf(state: RunState, node: string): string {
  return state.steps.findLast((step) => toStaticPath(step.path) === node)?.path ?? node;
}
