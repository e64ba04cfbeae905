// Draws a graph of steps. Both the run page and the workflow page use it.
import {
  Background,
  BaseEdge,
  Controls,
  type Edge,
  type EdgeProps,
  Handle,
  MarkerType,
  MiniMap,
  type Node,
  type NodeProps,
  Position,
  ReactFlow,
  ReactFlowProvider,
} from "@xyflow/react";
import { memo, type ReactNode, useMemo, useRef } from "react";
import type { Graph, NodeState } from "../run/graph";
import { durationOf } from "../run/rows";
import { t } from "../strings";
import { formatDuration } from "./format";
import {
  type Bounds,
  drawLine,
  END_ID,
  keyOfLayout,
  layOutGraph,
  middleOf,
  type Placement,
  type Route,
  sizeNode,
} from "./graph-layout";
import { wrapLabel } from "./graph-text";
import { FitOnChange, FollowNode, MIN_ZOOM } from "./graph-view";
import { Icon, kindIcon } from "./icon";
import { type Mark, PhaseMark, ProblemMark, WarningMark } from "./state";
import "@xyflow/react/dist/style.css";
import "../styles/graph.css";

/** Above this number only visible nodes are drawn. */
const MANY_NODES = 150;
/** Above this number a map shows where in the graph the view is. */
const MANY_FOR_MAP = 25;

type StepData = {
  title: string;
  detail: string | undefined;
  kind: string;
  about: string;
  state: NodeState | undefined;
  time: number;
  mark: Mark | undefined;
  canConnect: boolean;
};
type StepNode = Node<StepData, "step">;
type EndNode = Node<{ canConnect: boolean }, "end">;

type RoutedEdge = Edge<{ route: Route | undefined; text: string }, "routed">;
type FlowGraphProps = {
  graph: Graph;
  states?: Map<number, NodeState> | undefined;
  /** The arrows that were followed, by their position. */
  followed?: ReadonlySet<number> | undefined;
  selected?: number | undefined;
  /** Nodes with problems. */
  marked?: ReadonlyMap<number, Mark> | undefined;
  onSelect: (node: number | undefined) => void;
  /** The position of the selected edge. */
  selectedEdge?: number | undefined;
  onSelectEdge?: (edge: number) => void;
  /** Connects two nodes; without a target, a node with the end. */
  onConnect?: (from: number, to: number | undefined) => void;
  /** Whether the end is drawn even if nothing leads to it. */
  hasEnd?: boolean;
  /** The time at which the states are shown. */
  time?: number;
  children?: ReactNode;
};

export function FlowGraph(props: FlowGraphProps) {
  return (
    <ReactFlowProvider>
      <Drawing {...props} />
    </ReactFlowProvider>
  );
}

function Drawing(props: FlowGraphProps) {
  const { graph, states, followed, selected, marked, onSelect, selectedEdge, onSelectEdge, onConnect } =
    props;
  const { hasEnd = false, time = 0, children } = props;
  const key = useMemo(() => keyOfLayout(graph, hasEnd), [graph, hasEnd]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: an edit that changes nothing of the key moves no node.
  const { nodes: places, routes, bounds } = useMemo(() => layOutGraph(graph, hasEnd), [key]);
  const drawn = useMemo(() => {
    const first = boundsOf(graph, places, 0);
    return { bounds, start: first && middleOf(first) };
  }, [bounds, graph, places]);
  const isMoved = useRef(false);
  const canConnect = onConnect !== undefined;
  const nodes = useMemo(
    () => drawNodes({ graph, places, states, selected, marked, time, canConnect }),
    [graph, states, places, selected, marked, time, canConnect],
  );
  const edges = useMemo(
    () => drawEdges(graph, routes, followed, selectedEdge),
    [graph, routes, followed, selectedEdge],
  );
  return (
    <ReactFlow
      nodes={nodes}
      edges={edges}
      nodeTypes={NODE_TYPES}
      edgeTypes={EDGE_TYPES}
      onNodeClick={(_, node) => onSelect(node.id === END_ID ? undefined : Number(node.id))}
      onPaneClick={() => onSelect(undefined)}
      onSelectionChange={() => undefined}
      onNodesChange={(changes) => {
        const chosen = changes.find((change) => change.type === "select" && change.selected);
        if (chosen && "id" in chosen && chosen.id !== END_ID) onSelect(Number(chosen.id));
      }}
      onlyRenderVisibleElements={graph.nodes.length > MANY_NODES}
      nodesDraggable={false}
      nodesConnectable={canConnect}
      onConnect={({ source, target }) =>
        onConnect?.(Number(source), target === END_ID ? undefined : Number(target))
      }
      onEdgeClick={(_, edge) => onSelectEdge?.(Number(edge.id))}
      edgesFocusable={false}
      elementsSelectable
      onMoveStart={(event) => {
        // A move without an event is one of the page.
        if (event) isMoved.current = true;
      }}
      minZoom={MIN_ZOOM}
      maxZoom={1.5}
      proOptions={{ hideAttribution: true }}
      colorMode="system"
    >
      <Background gap={20} size={1} />
      <Controls showInteractive={false} />
      <FitOnChange key={`${graph.nodes.length} ${graph.edges.length}`} drawn={drawn} />
      <FollowNode
        selected={boundsOf(graph, places, selected)}
        running={boundsOf(graph, places, findRunning(states))}
        isMoved={isMoved}
      />
      {graph.nodes.length > MANY_FOR_MAP && <GraphMap />}
      {children}
    </ReactFlow>
  );
}

type DrawnNodes = Pick<FlowGraphProps, "graph" | "states" | "selected" | "marked"> & {
  places: Placement["nodes"];
  time: number;
  canConnect: boolean;
};

function drawNodes({ graph, places, states, selected, marked, time, canConnect }: DrawnNodes) {
  const steps = graph.nodes.map((node, at): StepNode => {
    const state = states?.get(at);
    const isMoving = state !== undefined && state.endedAt === undefined;
    const data = {
      title: node.title,
      detail: node.detail,
      kind: node.kind,
      about: node.about ?? t.kind(node.kind),
      state,
      time: isMoving ? time : 0,
      mark: marked?.get(at),
      canConnect,
    };
    const position = places.get(`${at}`) ?? { x: 0, y: 0 };
    const size = sizeNode(node);
    return {
      id: `${at}`,
      type: "step",
      position,
      data,
      selected: at === selected,
      ...size,
      measured: size,
    };
  });
  const end = places.get(END_ID);
  return end ? [...steps, endNode(end, canConnect)] : steps;
}

/** Shows where in a long graph the view is. */
function GraphMap() {
  const classOf = (node: StepNode | EndNode) =>
    node.type === "step" ? `map-${node.data.state?.phase ?? "open"}` : "";
  return (
    <MiniMap pannable ariaLabel={t.graphMap} nodeClassName={classOf} style={{ width: 120, height: 96 }} />
  );
}

/** The place and the size of a node. */
function boundsOf(graph: Graph, places: Placement["nodes"], at: number | undefined): Bounds | undefined {
  const node = at === undefined ? undefined : graph.nodes[at];
  const place = places.get(`${at}`);
  return node && place && { ...place, ...sizeNode(node) };
}

/** The node that a run has come to: of those that have not ended, the one that began last. */
function findRunning(states: Map<number, NodeState> | undefined): number | undefined {
  let found: { node: number; startedAt: number } | undefined;
  for (const [node, { startedAt, endedAt }] of states ?? []) {
    if (endedAt === undefined && startedAt >= (found?.startedAt ?? 0)) found = { node, startedAt };
  }
  return found?.node;
}

function endNode(position: { x: number; y: number }, canConnect: boolean): EndNode {
  return {
    id: END_ID,
    type: "end",
    position,
    data: { canConnect },
    focusable: false,
    selectable: false,
    width: 56,
    height: 28,
  };
}

function drawEdges(
  graph: Graph,
  routes: Route[],
  followed: ReadonlySet<number> | undefined,
  selected: number | undefined,
): RoutedEdge[] {
  return graph.edges.map((edge, at) => {
    return {
      id: `${at}`,
      source: `${edge.from}`,
      target: edge.to == null ? END_ID : `${edge.to}`,
      type: "routed",
      data: { route: routes[at], text: edge.label },
      className: at === selected ? "edge-selected" : followed?.has(at) ? "edge-taken" : "edge-open",
      markerEnd: { type: MarkerType.ArrowClosed, width: 14, height: 14, color: "var(--line-strong)" },
      focusable: false,
    };
  });
}

function RoutedLine({ id, data, markerEnd, sourceX, sourceY, targetX, targetY }: EdgeProps<RoutedEdge>) {
  const route = data?.route;
  const points = route?.points ?? [
    { x: sourceX, y: sourceY },
    { x: targetX, y: targetY },
  ];
  const place = route?.label;
  return (
    <BaseEdge
      id={id}
      path={drawLine(points)}
      {...(markerEnd && { markerEnd })}
      {...(place && { label: <EdgeText text={data?.text ?? ""} />, labelX: place.x, labelY: place.y })}
    />
  );
}

/** A label, which shows its whole text when it is pointed at. */
function EdgeText({ text }: { text: string }) {
  const [first, second] = wrapLabel(text);
  return (
    <>
      {first}
      {second !== undefined && (
        <tspan x="0" dy="1.2em">
          {second}
        </tspan>
      )}
      <title>{text}</title>
    </>
  );
}

const StepBox = memo(function StepBox({ data, selected }: NodeProps<StepNode>) {
  const { title, detail, kind, about, state, time, mark, canConnect } = data;
  return (
    <div
      className="node"
      data-state={state?.phase}
      data-selected={selected || undefined}
      data-marked={mark?.severity}
    >
      <Handle type="target" position={Position.Top} isConnectable={canConnect} />
      <Icon name={kindIcon(kind)} />
      <span className="node-text">
        <span className="node-title cut">{title}</span>
        <span className="node-facts number cut">
          {detail !== undefined && `${detail} · `}
          {describeTime(state, time) ?? about}
          {state && state.count > 1 && ` ${t.run.iterations(state.count)}`}
        </span>
      </span>
      <ProblemMark mark={mark} />
      {state && <WarningMark count={state.warnings} />}
      {state && <PhaseMark phase={state.phase} isIconOnly />}
      <Handle type="source" position={Position.Bottom} isConnectable={canConnect} />
    </div>
  );
});

/** How long a step took or has been running; undefined if that is not known. */
function describeTime(state: NodeState | undefined, time: number): string | undefined {
  if (!state || state.endedAt === state.startedAt) return undefined;
  return formatDuration(durationOf(state, time));
}

function EndBox({ data }: NodeProps<EndNode>) {
  return (
    <div className="node-end">
      <Handle type="target" position={Position.Top} isConnectable={data.canConnect} />
      {t.graphEnd}
    </div>
  );
}

const NODE_TYPES = { step: StepBox, end: EndBox };
const EDGE_TYPES = { routed: RoutedLine };
