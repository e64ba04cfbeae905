// Places the nodes of a graph, and leads its edges around them.
import type { Graph, GraphNode } from "../run/graph";
import { GRID_PX, leadToPorts } from "./graph-align";
import { arrangeWithDagre } from "./graph-dagre";
import { arrangeInLayers } from "./graph-layers";
import { measureLabel } from "./graph-text";

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
/** Above one of these numbers dagre takes too long. */
const MANY_NODES = 150;
const MANY_EDGES = 300;
/** The size of the loop of a step that is repeated, and how much larger each further one of it is. */
const LOOP_WIDTH_PX = 24;
const LOOP_HEIGHT_PX = 20;
const LOOP_STEP_PX = 6;

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

/** A node as it is arranged, with the room that its loops need at its right side. */
export type Box = { width: number; height: number; besides: number };
/** An edge as it is arranged, with the size of its label. */
export type Line = { from: number; to: number; label: { width: number; height: number } };
/** Where the middles of the boxes are, and the ways of the lines with the middles of their labels. */
export type Arranged = { centres: Point[]; ways: { points: Point[]; label: Point }[] };

/** What the layout of a graph depends on. */
export function keyOfLayout(graph: Graph, hasEnd: boolean): string {
  const widths = graph.nodes.map((node) => sizeNode(node).width);
  return JSON.stringify([
    hasEnd,
    widths,
    graph.edges.map(({ from, to, label }) => [from, to ?? null, label]),
  ]);
}

/** Places the nodes from top to bottom, and leads the edges around them. */
export function layOutGraph(graph: Graph, hasEnd: boolean): Placement {
  const count = graph.nodes.length;
  const needsEnd = hasEnd || graph.edges.some((edge) => edge.to == null);
  const sizes = [...graph.nodes.map(sizeNode), ...(needsEnd ? [END_SIZE] : [])];
  const lines = graph.edges.map(({ from, to, label }) => ({
    from,
    to: to ?? count,
    label: measureLabel(label),
  }));
  const loopRoom = measureLoops(lines);
  const boxes = sizes.map((size, at) => ({ ...size, besides: loopRoom.get(at) ?? 0 }));
  const isLarge = count > MANY_NODES || lines.length > MANY_EDGES;
  const { centres, ways } = isLarge ? arrangeInLayers(boxes, lines) : arrangeWithDagre(boxes, lines, count);
  const placed = sizes.map((size, at) => ({ ...size, ...(centres[at] as Point) }));
  const loops = placeLoops(lines, placed);
  const routes = lines.map(({ from, to, label }, at): Route => {
    const way = ways[at] as Arranged["ways"][number];
    const points = leadToPorts(way.points, placed[from] as Bounds, placed[to] as Bounds);
    return loops.get(at) ?? { points, label: label.width > 0 ? way.label : undefined };
  });
  const corners = placed.map(cornerOf);
  const outer = placed.flatMap((box, at) => [
    corners[at] as Point,
    { x: box.x + box.width / 2, y: box.y + box.height / 2 },
  ]);
  routes.forEach(({ points, label }, at) => {
    const half = (lines[at]?.label.width ?? 0) / 2;
    outer.push(...points);
    if (label) outer.push({ x: label.x - half, y: label.y }, { x: label.x + half, y: label.y });
  });
  const idOf = (at: number) => (at === count ? END_ID : `${at}`);
  return { nodes: new Map(corners.map((corner, at) => [idOf(at), corner])), routes, bounds: enclose(outer) };
}

function cornerOf({ x, y, width, height }: Bounds): Point {
  return { x: x - width / 2, y: y - height / 2 };
}

function enclose(points: Point[]): Bounds {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const { x, y } of points) {
    [left, right] = [Math.min(left, x), Math.max(right, x)];
    [top, bottom] = [Math.min(top, y), Math.max(bottom, y)];
  }
  return points.length > 0 ? { x: left, y: top, width: right - left, height: bottom - top } : EMPTY;
}

/** The edges from nodes to themselves, by the node. */
function groupLoops(lines: readonly Line[]): Map<number, number[]> {
  const groups = new Map<number, number[]>();
  lines.forEach(({ from, to }, at) => {
    if (from === to) groups.set(from, [...(groups.get(from) ?? []), at]);
  });
  return groups;
}

/** The room that the loops of nodes need at their right side. */
function measureLoops(lines: readonly Line[]): Map<number, number> {
  const rooms = [...groupLoops(lines)].map(([node, loops]) => {
    const widths = loops.map((at) => lines[at]?.label.width ?? 0);
    return [node, LOOP_WIDTH_PX + (loops.length - 1) * LOOP_STEP_PX + Math.max(...widths)] as const;
  });
  return new Map(rooms);
}

/** The ways of the edges from nodes to themselves, by their position. Their labels stand one below the other. */
function placeLoops(lines: readonly Line[], placed: readonly Bounds[]): Map<number, Route> {
  const routes = new Map<number, Route>();
  for (const [node, loops] of groupLoops(lines)) {
    const { x, y, width } = placed[node] as Bounds;
    const side = { x: x + width / 2, y };
    const labels = loops.map((at) => lines[at]?.label ?? { width: 0, height: 0 });
    const left = side.x + LOOP_WIDTH_PX + (loops.length - 1) * LOOP_STEP_PX;
    let top = y - labels.reduce((sum, { height }) => sum + height, 0) / 2;
    loops.forEach((at, nth) => {
      const { width, height } = labels[nth] as Line["label"];
      const label = width > 0 ? { x: left + width / 2, y: top + height / 2 } : undefined;
      routes.set(at, { points: leadAround(side, nth), label });
      top += height;
    });
  }
  return routes;
}

/** A loop at the right side of a node, which begins and ends at a point of it, around the loops before it. */
function leadAround(side: Point, nth: number): Point[] {
  const half = Math.min(NODE_HEIGHT_PX, LOOP_HEIGHT_PX + 2 * nth * LOOP_STEP_PX) / 2;
  const right = side.x + LOOP_WIDTH_PX + nth * LOOP_STEP_PX;
  const [top, bottom] = [side.y - half, side.y + half];
  return [
    { x: side.x, y: bottom },
    { x: right, y: bottom },
    { x: right, y: top },
    { x: side.x, y: top },
  ];
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
