// Which arrows of a graph a run has followed.
import type { RunState } from "./fold";
import type { Graph, NodeState } from "./graph";
import { isFinal } from "./record";
import { toStaticPath } from "./rows";

/** The format whose runs record the arrows that they follow. */
const RECORDING_FORMAT = "graph";

/** The positions of the arrows that were followed. */
export function findFollowed(
  graph: Graph,
  state: RunState,
  states: ReadonlyMap<number, NodeState>,
): ReadonlySet<number> {
  if (state.created?.format === RECORDING_FORMAT) return findRecorded(graph, state);
  return inferFollowed(graph, states, isFinal(state.status));
}

function findRecorded(graph: Graph, state: RunState): ReadonlySet<number> {
  const taken = new Set<string>();
  for (const [path, to] of state.edges) {
    const from = toStaticPath(path);
    const target = to === null ? "" : `${from.slice(0, from.lastIndexOf("/"))}/${to}`;
    taken.add(`${from} ${target}`);
  }
  const pathOf = (node: number | null | undefined) => (node == null ? "" : graph.nodes[node]?.path);
  return positionsOf(graph, ({ from, to }) => taken.has(`${pathOf(from)} ${pathOf(to)}`));
}

/**
 * Without a record, an arrow was followed if the step at its start has ended and the one at its end has begun, one that
 * leads back if the step at its end ran again, and a way around a step if that step did not run.
 */
export function inferFollowed(
  graph: Graph,
  states: ReadonlyMap<number, NodeState>,
  isEnded: boolean,
): ReadonlySet<number> {
  const ran = (node: number) => states.has(node) && states.get(node)?.phase !== "skipped";
  const hasEnded = (node: number) => {
    const state = states.get(node);
    const isOver = state !== undefined && (state.endedAt !== undefined || state.count > 1);
    return isOver && ran(node) && state.phase !== "failed" && state.phase !== "aborted";
  };
  const { isBack, between } = describeGraph(graph);
  return positionsOf(graph, ({ from, to }, at) => {
    if (!hasEnded(from)) return false;
    if (isBack.has(at)) return (states.get(to ?? -1)?.count ?? 0) > 1;
    return (to == null ? isEnded : ran(to)) && !between(at).some(ran);
  });
}

function positionsOf(graph: Graph, isFollowed: (edge: Graph["edges"][number], at: number) => boolean) {
  return new Set(graph.edges.flatMap((edge, at) => (isFollowed(edge, at) ? [at] : [])));
}

type Description = { isBack: ReadonlySet<number>; between: (edge: number) => number[] };

const described = new WeakMap<Graph, Description>();

/** What does not depend on a run: the arrows that lead back, and the steps that an arrow leads around. */
function describeGraph(graph: Graph): Description {
  const known = described.get(graph);
  if (known) return known;
  const leaving: { to: number; at: number }[][] = graph.nodes.map(() => []);
  const following = graph.nodes.map(() => new Set<number | null>());
  graph.edges.forEach(({ from, to }, at) => {
    if (to != null) leaving[from]?.push({ to, at });
    following[from]?.add(to ?? null);
  });
  const between = (edge: number) => {
    const { from, to = null, label = "" } = graph.edges[edge] ?? { from: -1 };
    const ways = [...(following[from] ?? [])].filter((node) => node !== null);
    const isAround = (node: number) => node !== from && node !== to && following[node]?.has(to);
    return label === "" ? [] : ways.filter(isAround);
  };
  const description = { isBack: findBackEdges(leaving), between };
  described.set(graph, description);
  return description;
}

/** The arrows that lead to a step on the way from the start to their own. */
function findBackEdges(leaving: { to: number; at: number }[][]): ReadonlySet<number> {
  const back = new Set<number>();
  const seen = new Set<number>();
  for (let start = 0; start < leaving.length; start++) {
    const way = [{ node: start, next: 0 }];
    const open = new Set([start]);
    if (seen.has(start)) continue;
    seen.add(start);
    for (let last = way.at(-1); last; last = way.at(-1)) {
      const edge = leaving[last.node]?.[last.next++];
      if (!edge) {
        open.delete(last.node);
        way.pop();
      } else if (open.has(edge.to)) {
        back.add(edge.at);
      } else if (!seen.has(edge.to)) {
        seen.add(edge.to);
        open.add(edge.to);
        way.push({ node: edge.to, next: 0 });
      }
    }
  }
  return back;
}
