// Arranges a graph that is too large for dagre, in time that grows with what is drawn: nodes stand in rows, edges lead
// through the rows between, and each row is moved once towards the one above and the one below.
import type { Arranged, Box, Line, Point } from "./graph-layout";

const NODE_GAP_PX = 16;
const LINE_GAP_PX = 8;
const ROW_GAP_PX = 18;
/** An edge over more rows goes straight, also behind nodes: its points would be most of the drawing. */
const MAX_ROWS = 40;
const SWEEPS = 4;

/** What stands in a row: a node, a label, or a point of an edge. Its width counts from its middle to each side. */
type Item = { left: number; right: number; height: number; above: Item[]; below: Item[]; x: number };

export function arrangeInLayers(boxes: readonly Box[], lines: readonly Line[]): Arranged {
  const ranks = rankNodes(boxes.length, lines);
  // Labels stand in rows between those of the nodes.
  const rows: Item[][] = Array.from({ length: 2 * Math.max(0, ...ranks) + 1 }, () => []);
  const put = (row: number, left: number, right: number, height: number): Item => {
    const item: Item = { left, right, height, above: [], below: [], x: 0 };
    rows[row]?.push(item);
    return item;
  };
  const nodes = boxes.map(({ width, height, besides }, at) =>
    put(2 * (ranks[at] ?? 0), width / 2, width / 2 + besides, height),
  );
  const ways = lines.map((line) => leadThrough(line, ranks, nodes, put));
  placeItems(rows);
  const heights = findHeights(rows);
  const place = (item: Item, row: number): Point => ({ x: Math.round(item.x), y: heights[row] ?? 0 });
  return {
    centres: nodes.map((node, at) => place(node, 2 * (ranks[at] ?? 0))),
    ways: ways.map(({ passed, label, isBack, ends }) => {
      const between = passed.map(({ item, row }) => place(item, row));
      const [upper, lower] = ends.map(({ item, row }) => place(item, row)) as [Point, Point];
      const start = { x: upper.x, y: upper.y + (ends[0]?.item.height ?? 0) / 2 };
      const end = { x: lower.x, y: lower.y - (ends[1]?.item.height ?? 0) / 2 };
      const points = [start, ...between, end];
      return {
        points: isBack ? points.reverse() : points,
        label: label ? place(label.item, label.row) : middle(start, end),
      };
    }),
  };
}

function middle(one: Point, other: Point): Point {
  return { x: (one.x + other.x) / 2, y: (one.y + other.y) / 2 };
}

type Placed = { item: Item; row: number };
type Way = { ends: Placed[]; passed: Placed[]; label: Placed | undefined; isBack: boolean };

/** Puts the points of an edge and its label into the rows between its nodes. */
function leadThrough(
  { from, to, label }: Line,
  ranks: number[],
  nodes: Item[],
  put: (row: number, left: number, right: number, height: number) => Item,
): Way {
  const isBack = (ranks[from] ?? 0) > (ranks[to] ?? 0);
  const [upper, lower] = isBack ? [to, from] : [from, to];
  const [first, last] = [2 * (ranks[upper] ?? 0), 2 * (ranks[lower] ?? 0)];
  const ends = [
    { item: nodes[upper] as Item, row: first },
    { item: nodes[lower] as Item, row: last },
  ];
  const way: Way = { ends, passed: [], label: undefined, isBack };
  if (from === to) return way;
  const isFar = last - first > 2 * MAX_ROWS;
  for (let row = first + 1; row < last; row += 1) {
    const isLabel = row === first + 1 && label.width > 0;
    if (isFar && !isLabel) break;
    const half = isLabel ? label.width / 2 : 0;
    const placed = { item: put(row, half, half, isLabel ? label.height : 0), row };
    way.passed.push(placed);
    if (isLabel) way.label = placed;
  }
  const chain = [ends[0], ...way.passed, ends[1]] as Placed[];
  for (const [at, { item }] of chain.slice(1).entries()) {
    const before = chain[at]?.item as Item;
    before.below.push(item);
    item.above.push(before);
  }
  return way;
}

/** The row of each node: below all nodes that lead to it. Edges that lead back to a node before them do not count. */
function rankNodes(count: number, lines: readonly Line[]): number[] {
  const next: number[][] = Array.from({ length: count }, () => []);
  for (const { from, to } of lines) if (from !== to) next[from]?.push(to);
  const order = sortDown(next);
  const position = new Map(order.map((node, at) => [node, at]));
  const ranks = Array.from({ length: count }, () => 0);
  for (const node of order) {
    for (const to of next[node] ?? []) {
      if ((position.get(to) ?? 0) > (position.get(node) ?? 0))
        ranks[to] = Math.max(ranks[to] ?? 0, (ranks[node] ?? 0) + 1);
    }
  }
  return ranks;
}

/** The nodes such that each comes before those that it leads to, except in cycles. */
function sortDown(next: number[][]): number[] {
  const left: number[] = [];
  const isSeen = next.map(() => false);
  for (let root = 0; root < next.length; root += 1) {
    if (isSeen[root]) continue;
    isSeen[root] = true;
    const open = [{ node: root, at: 0 }];
    for (let top = open.at(-1); top; top = open.at(-1)) {
      const to = next[top.node]?.[top.at];
      top.at += 1;
      if (to === undefined) left.push((open.pop() as typeof top).node);
      else if (!isSeen[to]) {
        isSeen[to] = true;
        open.push({ node: to, at: 0 });
      }
    }
  }
  return left.reverse();
}

/** Sorts each row by the middle of its neighbours, and moves it as near to them as there is room. */
function placeItems(rows: Item[][]): void {
  for (const row of rows)
    spread(
      row,
      row.map(() => 0),
    );
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const isDown = sweep % 2 === 0;
    for (const row of isDown ? rows : [...rows].reverse()) {
      const wanted = new Map(row.map((item) => [item, wishOf(item, isDown ? item.above : item.below)]));
      // The sort is stable: what wishes the same place stays in the order of the definition.
      row.sort((one, other) => (wanted.get(one) ?? 0) - (wanted.get(other) ?? 0));
      spread(
        row,
        row.map((item) => wanted.get(item) ?? 0),
      );
    }
  }
}

function wishOf(item: Item, neighbours: readonly Item[]): number {
  if (neighbours.length === 0) return item.x;
  return neighbours.reduce((sum, { x }) => sum + x, 0) / neighbours.length;
}

/** Places a row next to each other in its order, with the least sum of squares of the distances from the wishes. */
function spread(row: readonly Item[], wishes: readonly number[]): void {
  const offsets: number[] = [];
  row.forEach((item, at) => {
    const before = row[at - 1];
    const gap = before ? before.right + gapBetween(before, item) + item.left : 0;
    offsets.push((offsets[at - 1] ?? 0) + gap);
  });
  // Without the gaps, places only may not fall: neighbours that would are put together at their mean.
  const groups: { sum: number; count: number }[] = [];
  wishes.forEach((wish, at) => {
    let group = { sum: wish - (offsets[at] ?? 0), count: 1 };
    for (let last = groups.at(-1); last && meanOf(last) >= meanOf(group); last = groups.at(-1)) {
      group = { sum: last.sum + group.sum, count: last.count + group.count };
      groups.pop();
    }
    groups.push(group);
  });
  let at = 0;
  for (const group of groups) {
    for (const end = at + group.count; at < end; at += 1) {
      const item = row[at];
      if (item) item.x = meanOf(group) + (offsets[at] ?? 0);
    }
  }
}

function gapBetween(one: Item, other: Item): number {
  return one.height + other.height > 0 ? NODE_GAP_PX : LINE_GAP_PX;
}

function meanOf({ sum, count }: { sum: number; count: number }): number {
  return sum / count;
}

/** The middle of each row from top to bottom. */
function findHeights(rows: readonly Item[][]): number[] {
  let top = 0;
  return rows.map((row) => {
    const height = row.reduce((most, item) => Math.max(most, item.height), 0);
    const at = top + height / 2;
    top += height + ROW_GAP_PX;
    return at;
  });
}
