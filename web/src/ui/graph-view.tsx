// Which part of a graph is shown: all of it, as long as it can be read, and the node that matters.
import { getViewportForBounds, useReactFlow, useStore, type Viewport } from "@xyflow/react";
import { type RefObject, useEffect, useRef } from "react";
import { type Bounds, middleOf, type Point } from "./graph-layout";

/** The viewer can go further away than the page does by itself. */
export const MIN_ZOOM = 0.05;
/** The smallest scale at which a title can be read. */
const READABLE_ZOOM = 0.55;
const PADDING_PX = 16;
const PAN_MS = 250;

/** A graph, with the middle of its first node. */
export type Drawn = { bounds: Bounds; start: Point | undefined };

/** The view of a whole graph; of one that would be too small to read, its beginning. */
export function chooseViewport({ bounds, start }: Drawn, width: number, height: number): Viewport {
  const whole = getViewportForBounds(bounds, width, height, MIN_ZOOM, 1, 0.05);
  if (whole.zoom >= READABLE_ZOOM) return whole;
  const zoom = READABLE_ZOOM;
  const isNarrow = bounds.width * zoom + 2 * PADDING_PX <= width;
  const middle = isNarrow || !start ? bounds.x + bounds.width / 2 : start.x;
  // Next to a wide graph nothing is empty.
  const most = PADDING_PX - bounds.x * zoom;
  const least = width - PADDING_PX - (bounds.x + bounds.width) * zoom;
  const x = width / 2 - middle * zoom;
  const isFlat = bounds.height * zoom + 2 * PADDING_PX <= height;
  const y = isFlat ? (height - bounds.height * zoom) / 2 : PADDING_PX;
  return { x: isNarrow ? x : Math.min(most, Math.max(least, x)), y: y - bounds.y * zoom, zoom };
}

/** Whether a node is drawn completely. */
export function isInView(node: Bounds, { x, y, zoom }: Viewport, width: number, height: number): boolean {
  const [left, top] = [node.x * zoom + x, node.y * zoom + y];
  return left >= 0 && top >= 0 && left + node.width * zoom <= width && top + node.height * zoom <= height;
}

/** Shows the graph when it is drawn, when it has grown, and when its pane gets another size. */
export function FitOnChange({ drawn }: { drawn: Drawn }) {
  const flow = useReactFlow();
  const width = useStore((store) => store.width);
  const height = useStore((store) => store.height);
  const latest = useRef(drawn);
  // An edit that adds and removes nothing does not move the view.
  useEffect(() => {
    latest.current = drawn;
  }, [drawn]);
  useEffect(() => {
    if (width === 0 || height === 0 || latest.current.bounds.width === 0) return;
    void flow.setViewport(chooseViewport(latest.current, width, height));
  }, [width, height, flow]);
  return null;
}

type FollowProps = {
  /** The selected node, which is always brought into view. */
  selected: Bounds | undefined;
  /** The node that a run is at, which is followed until the viewer moves the view. */
  running: Bounds | undefined;
  isMoved: RefObject<boolean>;
};

/** Brings a node into view that is not. */
export function FollowNode({ selected, running, isMoved }: FollowProps) {
  const flow = useReactFlow();
  const width = useStore((store) => store.width);
  const height = useStore((store) => store.height);
  const key = (node: Bounds | undefined) => node && `${node.x} ${node.y}`;
  const [chosen, current] = [key(selected), key(running)];
  const show = (node: Bounds | undefined) => {
    if (!node || width === 0 || height === 0) return;
    const viewport = flow.getViewport();
    if (isInView(node, viewport, width, height)) return;
    const zoom = Math.max(viewport.zoom, READABLE_ZOOM);
    const isStill = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    const { x, y } = middleOf(node);
    void flow.setCenter(x, y, { zoom, duration: isStill ? 0 : PAN_MS });
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: a node is shown when it is chosen, or the pane has another size.
  useEffect(() => show(selected), [chosen, width, height]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a node is shown when the run comes to it.
  useEffect(() => {
    if (!isMoved.current && !selected) show(running);
  }, [current, width, height]);
  return null;
}
