// Places the nodes of a graph, and leads its edges around them.
import { graphlib, layout } from "@dagrejs/dagre";
import type { Graph, GraphNode } from "../run/graph";
import { alignNodes, GRID_PX, leadToPorts } from "./graph-align";

/** The id of the node at which a run ends. */
export const END_ID = "end";

const MIN_NODE_WIDTH_PX = 160;
const MAX_NODE_WIDTH_PX = 240;
const NODE_HEIGHT_PX = 48;
/** The width that a node needs in addition to its title: the icon, the mark of its state, and the space around them. */
const NODE_FRAME_PX = 76;
/** The mean width of a character of a title. */
const TITLE_CHARACTER_PX = 8;
/** The mean width of a character below a title, and how many a time and a number of iterations have. */
const FACT_CHARACTER_PX = 6;
const FACT_CHARACTERS = 10;
const LABEL_CHARACTER_PX = 6;
const MAX_LABEL_CHARACTERS = 44;
/** A longer label has two lines. */
const MAX_LINE_CHARACTERS = 20;
const LABEL_LINE_PX = 16;
/** The size of the loop of a step that is repeated. */
const LOOP_WIDTH_PX = 24;
const LOOP_HEIGHT_PX = 20;

export type Point = { x: number; y: number };
/** The way of an edge, and the place of its label. */
export type Route = { points: Point[]; label: Point | undefined };
export type Bounds = Point & { width: number; height: number };
export type Placement = { nodes: Map<string, Point>; routes: Route[]; bounds: Bounds };

/** The middle of a place. */
export function middleOf({ x, y, width, height }: Bounds): Point {
  return { x: x + width / 2, y: y + height / 2 };
}

const EMPTY: Bounds = { x: 0, y: 0, width: 0, height: 0 };
const END_SIZE = { width: 56, height: 28 };

export function sizeNode({ title, detail = "", about = "" }: Pick<GraphNode, "title" | "detail" | "about">) {
  const facts = (detail.length + Math.max(FACT_CHARACTERS, about.length)) * FACT_CHARACTER_PX;
  const wanted = NODE_FRAME_PX + Math.max(title.length * TITLE_CHARACTER_PX, facts);
  // Twice the grid, so that the middle is on it, too.
  const width = Math.ceil(wanted / (2 * GRID_PX)) * 2 * GRID_PX;
  return {
    width: Math.min(MAX_NODE_WIDTH_PX, Math.max(MIN_NODE_WIDTH_PX, width)),
    height: NODE_HEIGHT_PX,
  };
}

function shortenLabel(label: string): string {
  return label.length > MAX_LABEL_CHARACTERS ? `${label.slice(0, MAX_LABEL_CHARACTERS - 1)}…` : label;
}

/** The lines of a label: two if it is long, so that it does not make the whole graph wide and small. */
export function wrapLabel(label: string): string[] {
  const shown = shortenLabel(label);
  if (shown.length <= MAX_LINE_CHARACTERS) return [shown];
  const middle = shown.length / 2;
  const gaps = [...shown.matchAll(/ /g)].map(({ index }) => index);
  const gap = gaps.sort((one, other) => Math.abs(one - middle) - Math.abs(other - middle))[0];
  return gap === undefined ? [shown] : [shown.slice(0, gap), shown.slice(gap + 1)];
}

function measureLabel(label: string): number {
  return Math.max(...wrapLabel(label).map((line) => line.length)) * LABEL_CHARACTER_PX;
}

/** Places the nodes from top to bottom, and leads the edges around them. */
export function layOutGraph(graph: Graph, hasEnd: boolean): Placement {
  const drawing = new graphlib.Graph({ multigraph: true });
  drawing.setGraph({ rankdir: "TB", nodesep: 16, edgesep: 12, ranksep: 36 });
  drawing.setDefaultEdgeLabel(() => ({}));
  graph.nodes.forEach((node, at) => {
    drawing.setNode(`${at}`, sizeNode(node));
  });
  if (hasEnd || graph.edges.some((edge) => edge.to == null)) drawing.setNode(END_ID, { ...END_SIZE });
  const target = (to: number | null | undefined) => (to == null ? END_ID : `${to}`);
  graph.edges.forEach((edge, at) => {
    const height = edge.label ? wrapLabel(edge.label).length * LABEL_LINE_PX : 0;
    const label = { width: measureLabel(edge.label), height, labelpos: "c" };
    drawing.setEdge(`${edge.from}`, target(edge.to), label, `${at}`);
  });
  const constraints = siblingOrder(graph);
  layout(drawing, {
    customOrder: (ranked, order) => {
      order(ranked, { constraints });
      straightenEdges(ranked);
    },
  });
  alignNodes(drawing);
  const nodes = new Map<string, Point>();
  const corners: Point[] = [];
  for (const id of drawing.nodes()) {
    const { x, y, width, height } = drawing.node(id) as Point & { width: number; height: number };
    const corner = { x: x - width / 2, y: y - height / 2 };
    nodes.set(id, corner);
    corners.push(corner, { x: x + width / 2, y: y + height / 2 });
  }
  const routes = graph.edges.map((edge, at): Route => {
    const placed = drawing.edge(`${edge.from}`, target(edge.to), `${at}`) as Point & { points: Point[] };
    const label = edge.label ? { x: placed.x, y: placed.y } : undefined;
    if (edge.from !== edge.to) {
      const ends = [`${edge.from}`, target(edge.to)].map((id) => drawing.node(id));
      return { points: leadToPorts(placed.points, ends[0] as Bounds, ends[1] as Bounds), label };
    }
    const { x, y, width } = drawing.node(`${edge.from}`) as Point & { width: number };
    return leadAround({ x: x + width / 2, y }, edge.label);
  });
  for (const route of routes) corners.push(...route.points);
  routes.forEach(({ label }, at) => {
    const half = measureLabel(graph.edges[at]?.label ?? "") / 2;
    if (label) corners.push({ x: label.x - half, y: label.y }, { x: label.x + half, y: label.y });
  });
  return { nodes, routes, bounds: enclose(corners) };
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
function siblingOrder(graph: Graph): { left: string; right: string }[] {
  const origins = graph.nodes.map(() => new Set<number>());
  for (const { from, to } of graph.edges) if (to != null && to !== from) origins[to]?.add(from);
  const last = new Map<string, number>();
  return origins.flatMap((from, at) => {
    const key = [...from].sort((one, other) => one - other).join(" ");
    const left = last.get(key);
    last.set(key, at);
    return left === undefined ? [] : [{ left: `${left}`, right: `${at}` }];
  });
}

function enclose(points: Point[]): Bounds {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const { x, y } of points) {
    [left, right] = [Math.min(left, x), Math.max(right, x)];
    [top, bottom] = [Math.min(top, y), Math.max(bottom, y)];
  }
  return points.length > 0 ? { x: left, y: top, width: right - left, height: bottom - top } : EMPTY;
}

/** A loop at the right side of a node, which begins and ends at a point of it. */
function leadAround(side: Point, label: string): Route {
  const right = side.x + LOOP_WIDTH_PX;
  const [top, bottom] = [side.y - LOOP_HEIGHT_PX / 2, side.y + LOOP_HEIGHT_PX / 2];
  const points = [
    { x: side.x, y: bottom },
    { x: right, y: bottom },
    { x: right, y: top },
    { x: side.x, y: top },
  ];
  return { points, label: label ? { x: right + measureLabel(label) / 2, y: side.y } : undefined };
}

/** A smooth line through the middle of each pair of neighbouring points. */
export function drawLine(points: Point[]): string {
  const [first, ...others] = points;
  if (!first) return "";
  let line = `M ${first.x} ${first.y}`;
  others.forEach((point, at) => {
    const next = others[at + 1];
    line += next
      ? ` Q ${point.x} ${point.y} ${(point.x + next.x) / 2} ${(point.y + next.y) / 2}`
      : ` L ${point.x} ${point.y}`;
  });
  return line;
}
