import { expect, test, vi } from "vitest";
import * as dagre from "./graph-dagre";
import { drawLine, END_ID, keyOfLayout, layOutGraph, sizeNode } from "./graph-layout";
import { measureLabel, wrapLabel } from "./graph-text";

function step(title: string) {
  return { path: `/${title}`, title, kind: "generate" };
}

const GRAPH = {
  nodes: [step("first"), step("translate"), step("last")],
  edges: [
    { from: 0, to: 0, label: "at most 3 times" },
    { from: 0, to: 1, label: 'it contains "in spanish"' },
    { from: 0, to: 2, label: "else" },
    { from: 1, to: 2, label: "" },
    { from: 2, to: null, label: "" },
  ],
};

test("nodes stand one below the other, and the end stands last", () => {
  const { nodes } = layOutGraph(GRAPH, false);
  const heights = ["0", "1", "2", END_ID].map((id) => nodes.get(id)?.y ?? -1);
  expect(heights).toEqual([...heights].sort((a, b) => a - b));
});

test("no edge crosses a node", () => {
  const { nodes, routes } = layOutGraph(GRAPH, false);
  const left = nodes.get("1")?.x ?? 0;
  const top = nodes.get("1")?.y ?? 0;
  const isInside = ({ x, y }: { x: number; y: number }) =>
    x > left && x < left + 160 && y > top && y < top + 48;
  expect(routes[2]?.points.some(isInside)).toBe(false);
});

test("a step stands right below the one before it, not almost, and all nodes stand on the grid", () => {
  const steps = ["mood", "topic", "language", "draft", "improve", "translate", "approve"].map(step);
  const edges = [
    [0, 3, ""],
    [1, 3, ""],
    [2, 3, ""],
    [4, 4, 'until it contains "never", at most 3 times'],
    [3, 4, ""],
    [4, 5, '"spanish" is in language'],
    [5, 6, ""],
    [4, 6, "else"],
  ] as [number, number, string][];
  const graph = { nodes: steps, edges: edges.map(([from, to, label]) => ({ from, to, label })) };
  const { nodes, routes } = layOutGraph(graph, false);
  const places = [...nodes.values()];
  const [, topic, , ...below] = places;
  expect(below.map(({ x }) => x)).toEqual(below.map(() => topic?.x));
  expect(places.every(({ x, y }) => x % 4 === 0 && y % 4 === 0)).toBe(true);
  const leading = routes[5]?.points.at(-1);
  expect(leading?.x).toBe((topic?.x ?? 0) + 80);
});

test("an edge leads from the middle below a node to the middle above the next one", () => {
  const { nodes, routes } = layOutGraph(GRAPH, false);
  const middle = (at: number) => (nodes.get(`${at}`)?.x ?? 0) + 80;
  routes.slice(1, 4).forEach(({ points }, at) => {
    const edge = GRAPH.edges[at + 1];
    expect(points[0]).toEqual({ x: middle(edge?.from ?? 0), y: (nodes.get(`${edge?.from}`)?.y ?? 0) + 48 });
    expect(points.at(-1)).toEqual({ x: middle(edge?.to ?? 0), y: nodes.get(`${edge?.to}`)?.y });
    // It arrives from above.
    expect(points.at(-2)?.x).toBe(points.at(-1)?.x);
  });
});

test("a loop begins and ends at the right side of its node", () => {
  const { nodes, routes } = layOutGraph(GRAPH, false);
  const right = (nodes.get("0")?.x ?? 0) + 160;
  const points = routes[0]?.points ?? [];
  expect([points[0]?.x, points.at(-1)?.x]).toEqual([right, right]);
  expect(points.every((point) => point.x >= right)).toBe(true);
});

test("steps that follow the same step stand in the order of the definition", () => {
  const siblings = ["one", "two", "three", "four"];
  const last = siblings.length + 1;
  const orderOf = (label: string) => {
    const { nodes } = layOutGraph(
      {
        nodes: ["first", ...siblings, "last"].map(step),
        edges: siblings.flatMap((_, at) => [
          { from: 0, to: at + 1, label },
          { from: at + 1, to: last, label: "" },
        ]),
      },
      false,
    );
    return siblings.map((_, at) => nodes.get(`${at + 1}`)?.x ?? 0);
  };
  for (const label of ["", "if so"]) expect(orderOf(label)).toEqual(orderOf(label).toSorted((a, b) => a - b));
});

test("a long label has two lines", () => {
  expect(wrapLabel("else")).toEqual(["else"]);
  expect(wrapLabel('until it contains "never", at most 3 times')).toEqual([
    "until it contains",
    '"never", at most 3 times',
  ]);
  expect(wrapLabel("x".repeat(60))).toEqual([`${"x".repeat(43)}…`]);
});

test("a long title gets a wider node, up to a limit", () => {
  const titles = ["a", "frequent_words", "x".repeat(80)];
  expect(titles.map((title) => sizeNode({ title }).width)).toEqual([160, 192, 240]);
  expect(sizeNode({ title: "API call", detail: "weather_of_today" }).width).toBe(232);
});

test("a line goes through the middle of neighbouring points", () => {
  const points = [
    { x: 0, y: 0 },
    { x: 0, y: 10 },
    { x: 10, y: 20 },
  ];
  expect(drawLine(points)).toBe("M 0 0 Q 0 10 5 15 L 10 20");
  expect(drawLine([])).toBe("");
});

function layOut(titles: string[], edges: [number, number][]) {
  const graph = { nodes: titles.map(step), edges: edges.map(([from, to]) => ({ from, to, label: "" })) };
  return layOutGraph(graph, false);
}

test("the edges of a step that is followed by several do not cross", () => {
  const { nodes, routes } = layOut(
    ["start", "one part", "a second part", "collect"],
    [
      [0, 1],
      [0, 2],
      [1, 3],
      [2, 3],
    ],
  );
  const xOf = (at: number) => nodes.get(`${at}`)?.x ?? 0;
  const [toFirst, toSecond] = routes.map(({ points }) => points);
  // They begin at the same port; below it the edge to the left part is left of the other one.
  expect(toFirst?.[0]).toEqual(toSecond?.[0]);
  toFirst?.slice(2).forEach((point, at) => {
    expect(point.x).toBeLessThan(toSecond?.[at + 2]?.x ?? 0);
  });
  expect(xOf(1)).toBeLessThan(xOf(2));
  expect(xOf(0)).toBeCloseTo(xOf(3), 5);
});

test("steps at the start stand in the order of the definition, too", () => {
  const { nodes } = layOut(
    ["mood", "topic", "language", "collect"],
    [
      [0, 3],
      [1, 3],
      [2, 3],
    ],
  );
  const places = [0, 1, 2].map((at) => nodes.get(`${at}`)?.x ?? 0);
  expect(places).toEqual(places.toSorted((one, other) => one - other));
});

test("no label lies on a node", () => {
  // Chains in which some steps may be left out; the titles make nodes of any width.
  const widths = [3, 9, 14, 22, 30];
  const overlaps: string[] = [];
  for (let seed = 0; seed < 200; seed += 1) {
    const pick = (n: number, of: number) => Math.floor(Math.abs(Math.sin(seed * 31 + n * 17)) * 1000) % of;
    const count = 4 + pick(1, 5);
    const nodes = [...Array(count).keys()].map((at) =>
      step("w".repeat(widths[pick(at + 2, widths.length)] ?? 3)),
    );
    const edges = nodes
      .slice(1)
      .map((_, at) => ({ from: at, to: at + 1, label: pick(at + 20, 3) === 0 ? "if it is long" : "" }));
    for (let at = 0; at + 2 < count; at += 1 + pick(at + 40, 3)) {
      edges.push({ from: at, to: Math.min(count - 1, at + 2 + pick(at + 60, 2)), label: "else" });
    }
    const { nodes: places, routes } = layOutGraph({ nodes, edges }, false);
    routes.forEach(({ label }, edge) => {
      if (!label) return;
      const half = ((edges[edge]?.label.length ?? 0) * 6) / 2;
      nodes.forEach((node, at) => {
        const place = places.get(`${at}`);
        if (!place) return;
        const { width, height } = sizeNode(node);
        const isBeside = label.x + half <= place.x || label.x - half >= place.x + width;
        const isAboveOrBelow = label.y + 8 <= place.y || label.y - 8 >= place.y + height;
        if (!isBeside && !isAboveOrBelow) overlaps.push(`${seed}: edge ${edge} on node ${at}`);
      });
    });
  }
  expect(overlaps).toEqual([]);
});

/** A graph whose nodes follow nodes before them, by numbers that look random. */
function createGraph(count: number, edgeCount: number) {
  let seed = 1;
  const pick = (below: number) => {
    seed = (seed * 48_271) % 2_147_483_647;
    return seed % below;
  };
  const nodes = [...Array(count).keys()].map((at) => step(`node ${at}`));
  const edges = [...Array(edgeCount).keys()].map((at) => {
    const to = 1 + (at % (count - 1));
    return { from: pick(to), to, label: pick(4) === 0 ? "if so" : "" };
  });
  return { nodes, edges };
}

test("a large graph is arranged without dagre: its nodes and labels stand beside each other", () => {
  const arrange = vi.spyOn(dagre, "arrangeWithDagre");
  const graph = createGraph(1000, 1500);
  const { nodes, routes } = layOutGraph(graph, true);
  expect(arrange).not.toHaveBeenCalled();
  const boxes = graph.nodes.map((node, at) => ({
    ...(nodes.get(`${at}`) ?? { x: 0, y: 0 }),
    ...sizeNode(node),
  }));
  const labels = routes.flatMap(({ label }) =>
    label ? [{ x: label.x - 15, y: label.y - 8, width: 30, height: 16 }] : [],
  );
  const all = [...boxes, ...labels].sort((one, other) => one.y - other.y || one.x - other.x);
  const overlaps = all.filter((one, at) => {
    const next = all[at + 1];
    return next?.y === one.y && next.x < one.x + one.width;
  });
  expect(overlaps).toEqual([]);
  // Every edge leads down, from the middle below a node to the middle above another one.
  graph.edges.forEach(({ from, to }, at) => {
    const [start, end] = [routes[at]?.points[0], routes[at]?.points.at(-1)];
    expect(start?.y).toBe((boxes[from]?.y ?? 0) + 48);
    expect(end?.y).toBe(boxes[to]?.y);
  });
  arrange.mockRestore();
});

test("a long chain stands in one column, and a cycle leads back up", () => {
  const count = 400;
  const nodes = [...Array(count).keys()].map((at) => step(`node ${at}`));
  const edges = nodes.map((_, at) => ({ from: at, to: (at + 1) % count, label: "" }));
  const { nodes: places, routes } = layOutGraph({ nodes, edges }, false);
  const top = (at: number) => places.get(`${at}`)?.y ?? 0;
  expect(nodes.every((_, at) => at === 0 || top(at) > top(at - 1))).toBe(true);
  expect(new Set([...places.values()].map(({ x }) => x)).size).toBe(1);
  const back = routes.at(-1)?.points ?? [];
  expect([back[0]?.y, back.at(-1)?.y]).toEqual([top(count - 1), top(0) + 48]);
});

test("labels of wide letters have the room that they need", () => {
  expect(measureLabel("else").width).toBe(24);
  expect(measureLabel("返金の依頼").width).toBe(60);
  expect(measureLabel("WWWWWWWW").width).toBe(88);
});

test("the labels of several loops of a node stand below each other", () => {
  const edges = ["until it is short", "until it is good, at most 3 times"].map((label) => ({
    from: 0,
    to: 0,
    label,
  }));
  const { routes, bounds } = layOutGraph({ nodes: [step("a")], edges }, false);
  const [first, second] = routes.map(({ label }) => label);
  expect((second?.y ?? 0) - (first?.y ?? 0)).toBe((16 + 32) / 2);
  const half = measureLabel(edges[1]?.label ?? "").width / 2;
  expect(bounds.x + bounds.width).toBeGreaterThanOrEqual((second?.x ?? 0) + half);
});

test("a layout depends on the sizes of the nodes and on the edges only", () => {
  const key = keyOfLayout(GRAPH, false);
  const [first, ...others] = GRAPH.nodes;
  const withTitle = (title: string) => ({
    ...GRAPH,
    nodes: [{ ...step(title), path: first?.path ?? "" }, ...others],
  });
  expect(keyOfLayout(withTitle("firsts"), false)).toBe(key);
  expect(keyOfLayout(withTitle("a title that needs more room"), false)).not.toBe(key);
  expect(keyOfLayout({ ...GRAPH, edges: GRAPH.edges.slice(1) }, false)).not.toBe(key);
  expect(keyOfLayout(GRAPH, true)).not.toBe(key);
});
