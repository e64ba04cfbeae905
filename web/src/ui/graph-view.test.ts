import { expect, test } from "vitest";
import { chooseViewport, isInView } from "./graph-view";

const boundsOf = (width: number, height: number) => ({ x: 0, y: 0, width, height });

test("a graph that fits is shown completely, and a long one from its beginning at a scale that can be read", () => {
  const start = { x: 80, y: 24 };
  const small = chooseViewport({ bounds: boundsOf(200, 300), start }, 400, 600);
  expect(small.zoom).toBe(1);
  const long = chooseViewport({ bounds: boundsOf(160, 60 * 84), start }, 400, 600);
  expect(long.zoom).toBe(0.55);
  expect([long.x + 80 * 0.55, long.y]).toEqual([200, 16]);
  // A wide one begins in the middle of its first node.
  const wide = chooseViewport({ bounds: boundsOf(4000, 3000), start: { x: 900, y: 24 } }, 400, 600);
  expect([wide.zoom, wide.x]).toEqual([0.55, 200 - 900 * 0.55]);
  const left = chooseViewport({ bounds: boundsOf(4000, 3000), start }, 400, 600);
  expect(left.x).toBe(16);
});

test("a node is in view if all of it is", () => {
  const node = { x: 100, y: 1000, width: 160, height: 48 };
  expect(isInView(node, { x: 0, y: 0, zoom: 1 }, 400, 600)).toBe(false);
  expect(isInView(node, { x: 0, y: -900, zoom: 1 }, 400, 600)).toBe(true);
  expect(isInView(node, { x: 200, y: -900, zoom: 1 }, 400, 600)).toBe(false);
});
