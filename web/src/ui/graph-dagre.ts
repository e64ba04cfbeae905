// Arranges a graph of usual size with dagre.
import { graphlib, layout } from "@dagrejs/dagre";
import { alignNodes } from "./graph-align";
import type { Arranged, Box, Line } from "./graph-layout";

/** The nodes from top to bottom. Of the nodes only those of `named` are kept in the order of the definition. */
export function arrangeWithDagre(boxes: readonly Box[], lines: readonly Line[], named: number): Arranged {
  const drawing = new graphlib.Graph({ multigraph: true });
  drawing.setGraph({ rankdir: "TB", nodesep: 16, edgesep: 12, ranksep: 36 });
  drawing.setDefaultEdgeLabel(() => ({}));
  boxes.forEach(({ width, height }, at) => {
    drawing.setNode(`${at}`, { width, height });
  });
  lines.forEach(({ from, to, label }, at) => {
    drawing.setEdge(`${from}`, `${to}`, { ...label, labelpos: "c" }, `${at}`);
  });
  const constraints = siblingOrder(lines, named);
  layout(drawing, {
    customOrder: (ranked, order) => {
      order(ranked, { constraints });
      straightenEdges(ranked);
    },
  });
  alignNodes(drawing);
  return {
    centres: boxes.map((_, at) => drawing.node(`${at}`)),
    ways: lines.map(({ from, to }, at) => {
      const { points, x, y } = drawing.edge(`${from}`, `${to}`, `${at}`);
      return { points, label: { x, y } };
    }),
  };
}

/**
 * Sorts the points of edges between two rows of nodes, so that no two edges cross without need: the constraints do not
 * know these points.
 */
function straightenEdges(ranked: graphlib.Graph) {
  const rows = new Map<number, string[]>();
  const orderOf = (id: string | undefined) => (id === undefined ? 0 : (ranked.node(id).order as number));
  for (const id of ranked.nodes()) {
    const rank = ranked.node(id).rank as number;
    rows.set(rank, [...(rows.get(rank) ?? []), id]);
  }
  for (const row of rows.values()) {
    if (!row.every((id) => ranked.node(id).dummy !== undefined)) continue;
    const places = row.map((id) => {
      const [from] = ranked.predecessors(id) ?? [];
      const [to] = ranked.successors(id) ?? [];
      return { id, middle: orderOf(from) + orderOf(to), to: orderOf(to) };
    });
    places.sort((one, other) => one.middle - other.middle || one.to - other.to);
    places.forEach(({ id }, at) => {
      ranked.node(id).order = at;
    });
  }
}

/** The order from left to right: steps that follow the same steps, or none, are in the order of the definition. */
function siblingOrder(lines: readonly Line[], count: number): { left: string; right: string }[] {
  const origins = Array.from({ length: count }, () => new Set<number>());
  for (const { from, to } of lines) if (to !== from) origins[to]?.add(from);
  const last = new Map<string, number>();
  return origins.flatMap((from, at) => {
    const key = [...from].sort((one, other) => one - other).join(" ");
    const left = last.get(key);
    last.set(key, at);
    return left === undefined ? [] : [{ left: `${left}`, right: `${at}` }];
  });
}
