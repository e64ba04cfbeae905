// A fan-out with many members is one node of the graph: a thousand nodes in a row show nothing.
import type { Graph, GraphNode } from "./graph";

/** More members are drawn as one node. */
const MAX_MEMBERS = 24;

/** The fan-out around a path; undefined if there is none. */
function fanOutOf(path: string): string | undefined {
  return /^(.*\/fanout~\d+)\/[^/]+$/.exec(path)?.[1];
}

/** The graph, in which each large fan-out is a node with the number of its members. */
export function foldFanOuts(graph: Graph, describe: (members: number) => string): Graph {
  const members = countMembers(graph);
  if (members.size === 0) return graph;
  const nodes: GraphNode[] = [];
  const folded = new Map<string, number>();
  const positions = graph.nodes.map((node) => {
    const path = fanOutOf(node.path) ?? "";
    const count = members.get(path);
    if (count === undefined) return nodes.push(node) - 1;
    const known = folded.get(path);
    if (known !== undefined) return known;
    const at = nodes.push({ path, title: describe(count), kind: node.kind, members: count }) - 1;
    folded.set(path, at);
    return at;
  });
  const edges = new Map(
    graph.edges.map(({ from, to, label }) => {
      const edge = { from: positions[from] ?? from, to: to == null ? null : (positions[to] ?? to), label };
      return [`${edge.from} ${edge.to} ${label}`, edge];
    }),
  );
  return { nodes, edges: [...edges.values()] };
}

/** The large fan-outs, with the number of their members. */
function countMembers({ nodes }: Graph): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { path } of nodes) {
    const around = fanOutOf(path);
    if (around !== undefined) counts.set(around, (counts.get(around) ?? 0) + 1);
  }
  return new Map([...counts].filter(([, count]) => count > MAX_MEMBERS));
}
