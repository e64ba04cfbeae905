// Aligns the nodes of a graph after its layout: a step that is almost below the one before it looks misplaced.
import type { graphlib } from "@dagrejs/dagre";

/** A node that is nearer to the axis of the node before it than this is moved onto it. */
const NEAR_PX = 20;
/** The least space between two nodes of a row. */
const MIN_GAP_PX = 8;
/** The grid on which the nodes are placed. */
export const GRID_PX = 4;

type Placed = { x: number; y: number; width: number; height: number };
type Point = { x: number; y: number };

/** Moves nodes onto the axis of a node before them if that is near, and all onto the grid; their edges follow. */
export function alignNodes(drawing: graphlib.Graph): void {
  const placed = (id: string) => drawing.node(id) as Placed;
  const rows = new Map<number, string[]>();
  const labels = drawing.edges().map((edge) => drawing.edge(edge) as Placed);
  for (const id of drawing.nodes()) rows.set(placed(id).y, [...(rows.get(placed(id).y) ?? []), id]);
  for (const y of [...rows.keys()].sort((one, other) => one - other)) {
    const row = (rows.get(y) ?? []).map((id) => ({ id, node: placed(id) }));
    for (const { id, node } of row) {
      const before = (drawing.predecessors(id) ?? []).map(placed);
      const axis = findAxis(node, before);
      const besides = labels.filter((label) => label.height > 0 && overlapInHeight(label, node));
      const others = [...row.flatMap((one) => (one.id === id ? [] : [one.node])), ...besides];
      const hasRoom =
        axis !== undefined && others.every((other) => gapBetween({ ...node, x: axis }, other) >= MIN_GAP_PX);
      moveNode(drawing, id, hasRoom ? axis : toGrid(node));
    }
  }
}

/** How far an edge goes straight on from its port. */
const STRAIGHT_PX = 12;

/**
 * Leads an edge from the middle below a node to the middle above the next one. Edges that lead back up, and those between
 * nodes of a row, keep their points.
 */
export function leadToPorts(points: Point[], from: Placed, to: Placed): Point[] {
  const start = { x: from.x, y: from.y + from.height / 2 };
  const end = { x: to.x, y: to.y - to.height / 2 };
  if (end.y < start.y + 2 * STRAIGHT_PX) return points;
  const inner = points.slice(1, -1).filter(({ y }) => y > start.y + STRAIGHT_PX && y < end.y - STRAIGHT_PX);
  const first = { x: start.x, y: start.y + STRAIGHT_PX };
  const last = { x: end.x, y: end.y - STRAIGHT_PX };
  return [start, first, ...inner, last, end];
}

/** The axis of the nearest of the nodes above a node. */
function findAxis(node: Placed, before: Placed[]): number | undefined {
  const axes = before.filter((one) => one.y < node.y).map((one) => one.x);
  const near = axes.filter((axis) => Math.abs(axis - node.x) < NEAR_PX);
  return near.sort((one, other) => Math.abs(one - node.x) - Math.abs(other - node.x))[0];
}

/** The middle of a node whose left side is on the grid. */
function toGrid({ x, width }: Placed): number {
  return Math.round((x - width / 2) / GRID_PX) * GRID_PX + width / 2;
}

function overlapInHeight(one: Placed, other: Placed): boolean {
  return Math.abs(one.y - other.y) < (one.height + other.height) / 2;
}

function gapBetween(one: Placed, other: Placed): number {
  return Math.abs(one.x - other.x) - (one.width + other.width) / 2;
}

function moveNode(drawing: graphlib.Graph, id: string, x: number): void {
  const node = drawing.node(id) as Placed;
  const from = node.x;
  if (x === from) return;
  node.x = x;
  for (const edge of drawing.nodeEdges(id) ?? []) {
    const { points } = drawing.edge(edge) as { points: Point[] };
    const end = edge.v === id ? points[0] : points.at(-1);
    // The edge leads straight to the node, or from it, as far as its points are on the axis.
    for (const point of points) {
      if (point === end || Math.abs(point.x - from) < 1) point.x += x - from;
    }
  }
}
