// Draws a graph of steps. Both the run page and the workflow page use it.
import {
  Background,
  BaseEdge,
  Controls,
  type Edge,
  type EdgeProps,
  getViewportForBounds,
  Handle,
  MarkerType,
  type Node,
  type NodeProps,
  Position,
  ReactFlow,
  ReactFlowProvider,
  useReactFlow,
  useStore,
} from "@xyflow/react";
import { memo, type ReactNode, useEffect, useMemo, useRef } from "react";
import { type Graph, type NodeState, nodeIdOf } from "../run/graph";
import { t } from "../strings";
import { formatDuration } from "./format";
import {
  type Bounds,
  drawLine,
  END_ID,
  layOutGraph,
  type Route,
  shortenLabel,
  sizeNode,
} from "./graph-layout";
import { Icon, kindIcon } from "./icon";
import { PhaseMark } from "./state";
import "@xyflow/react/dist/style.css";
import "../styles/graph.css";

/** Above this number only visible nodes are drawn. */
const MANY_NODES = 150;
const MIN_ZOOM = 0.05;

type StepData = {
  title: string;
  /** The id of a node of a pipeline, if its title is another one. */
  nodeId: string | undefined;
  kind: string;
  state: NodeState | undefined;
  time: number;
  isMarked: boolean;
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
  /** Nodes with a problem. */
  marked?: ReadonlySet<number> | undefined;
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
  const { nodes: places, routes, bounds } = useMemo(() => layOutGraph(graph, hasEnd), [graph, hasEnd]);
  const canConnect = onConnect !== undefined;
  const nodes = useMemo(() => {
    const steps = graph.nodes.map((node, at): StepNode => {
      const state = states?.get(at);
      const isMoving = state !== undefined && state.endedAt === undefined;
      const data = {
        title: node.title,
        nodeId: nodeIdOf(node),
        kind: node.kind,
        state,
        time: isMoving ? time : 0,
        isMarked: !!marked?.has(at),
        canConnect,
      };
      const position = places.get(`${at}`) ?? { x: 0, y: 0 };
      const size = sizeNode(node.title);
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
  }, [graph, states, places, selected, marked, time, canConnect]);
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
      minZoom={MIN_ZOOM}
      maxZoom={1.5}
      proOptions={{ hideAttribution: true }}
      colorMode="system"
    >
      <Background gap={20} size={1} />
      <Controls showInteractive={false} />
      <FitOnChange key={`${graph.nodes.length} ${graph.edges.length}`} bounds={bounds} />
      {children}
    </ReactFlow>
  );
}

/** Shows the whole graph when it is drawn, when it has grown, and when its pane gets another size. */
function FitOnChange({ bounds }: { bounds: Bounds }) {
  const flow = useReactFlow();
  const width = useStore((store) => store.width);
  const height = useStore((store) => store.height);
  const latest = useRef(bounds);
  // An edit that adds and removes nothing does not move what is shown.
  useEffect(() => {
    latest.current = bounds;
  }, [bounds]);
  useEffect(() => {
    if (width === 0 || height === 0 || latest.current.width === 0) return;
    void flow.setViewport(getViewportForBounds(latest.current, width, height, MIN_ZOOM, 1, 0.05));
  }, [width, height, flow]);
  return null;
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

/** A label, which tells its whole text when it is pointed at. */
function EdgeText({ text }: { text: string }) {
  return (
    <>
      {shortenLabel(text)}
      <title>{text}</title>
    </>
  );
}

const StepBox = memo(function StepBox({ data, selected }: NodeProps<StepNode>) {
  const { title, nodeId, kind, state, time, isMarked, canConnect } = data;
  return (
    <div
      className="node"
      data-state={state?.phase}
      data-selected={selected || undefined}
      data-marked={isMarked || undefined}
    >
      <Handle type="target" position={Position.Top} isConnectable={canConnect} />
      <Icon name={kindIcon(kind)} />
      <span className="node-text">
        <span className="node-title cut">{title}</span>
        <span className="node-facts number">
          {nodeId !== undefined && `${nodeId} · `}
          {describeTime(state, time) ?? t.kind(kind)}
          {state && state.count > 1 && ` ${t.run.iterations(state.count)}`}
        </span>
      </span>
      {state && <PhaseMark phase={state.phase} isIconOnly />}
      <Handle type="source" position={Position.Bottom} isConnectable={canConnect} />
    </div>
  );
});

/** How long a step took or has been running; undefined if that cannot be told. */
function describeTime(state: NodeState | undefined, time: number): string | undefined {
  if (!state || state.endedAt === state.startedAt) return undefined;
  return formatDuration((state.endedAt ?? Math.max(time, state.startedAt)) - state.startedAt);
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
