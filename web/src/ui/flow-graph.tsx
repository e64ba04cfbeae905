// Draws a graph of steps. Both the run page and the workflow page use it.
import { graphlib, layout } from "@dagrejs/dagre";
import {
  Background,
  Controls,
  type Edge,
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
import { memo, type ReactNode, useEffect, useMemo } from "react";
import type { Graph, NodeState } from "../run/graph";
import { t } from "../strings";
import { formatDuration } from "./format";
import { Icon, kindIcon } from "./icon";
import { PhaseMark } from "./state";
import "@xyflow/react/dist/style.css";
import "../styles/graph.css";

const NODE_WIDTH_PX = 160;
const NODE_HEIGHT_PX = 48;
/** Above this number only visible nodes are drawn. */
const MANY_NODES = 150;
const END_ID = "end";

type StepData = {
  title: string;
  kind: string;
  state: NodeState | undefined;
  time: number;
  isMarked: boolean;
  canConnect: boolean;
};
type StepNode = Node<StepData, "step">;
type EndNode = Node<{ canConnect: boolean }, "end">;

type FlowGraphProps = {
  graph: Graph;
  states?: Map<number, NodeState> | undefined;
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
  const { graph, states, selected, marked, onSelect, selectedEdge, onSelectEdge, onConnect } = props;
  const { hasEnd = false, time = 0, children } = props;
  const places = useMemo(() => placeNodes(graph, hasEnd), [graph, hasEnd]);
  const canConnect = onConnect !== undefined;
  const nodes = useMemo(() => {
    const steps = graph.nodes.map((node, at): StepNode => {
      const state = states?.get(at);
      const isMoving = state !== undefined && state.endedAt === undefined;
      const data = {
        title: node.title,
        kind: node.kind,
        state,
        time: isMoving ? time : 0,
        isMarked: !!marked?.has(at),
        canConnect,
      };
      const position = places.get(`${at}`) ?? { x: 0, y: 0 };
      return {
        id: `${at}`,
        type: "step",
        position,
        data,
        selected: at === selected,
        ...SIZE,
        measured: SIZE,
      };
    });
    const end = places.get(END_ID);
    return end ? [...steps, endNode(end, canConnect)] : steps;
  }, [graph, states, places, selected, marked, time, canConnect]);
  const edges = useMemo(() => drawEdges(graph, states, selectedEdge), [graph, states, selectedEdge]);
  return (
    <ReactFlow
      nodes={nodes}
      edges={edges}
      nodeTypes={NODE_TYPES}
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
      minZoom={0.05}
      maxZoom={1.5}
      proOptions={{ hideAttribution: true }}
      colorMode="system"
    >
      <Background gap={20} size={1} />
      <Controls showInteractive={false} />
      <FitOnChange key={`${graph.nodes.length} ${graph.edges.length}`} />
      {children}
    </ReactFlow>
  );
}

/** Shows the whole graph when it is drawn, when it has grown, and when its pane gets another size. */
function FitOnChange() {
  const flow = useReactFlow();
  const width = useStore((store) => store.width);
  const height = useStore((store) => store.height);
  useEffect(() => {
    if (width > 0 && height > 0) void flow.fitView({ padding: 0.05, maxZoom: 1 });
  }, [width, height, flow]);
  return null;
}

const SIZE = { width: NODE_WIDTH_PX, height: NODE_HEIGHT_PX };
const END_SIZE = { width: 56, height: 28 };

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

/** Positions by node id, from top to bottom. */
function placeNodes(graph: Graph, hasEnd: boolean): Map<string, { x: number; y: number }> {
  const drawing = new graphlib.Graph({ multigraph: true });
  drawing.setGraph({ rankdir: "TB", nodesep: 12, ranksep: 36 });
  drawing.setDefaultEdgeLabel(() => ({}));
  graph.nodes.forEach((_, at) => {
    drawing.setNode(`${at}`, { ...SIZE });
  });
  if (hasEnd || graph.edges.some((edge) => edge.to == null)) drawing.setNode(END_ID, { ...END_SIZE });
  graph.edges.forEach((edge, at) => {
    const label = { width: Math.min(160, edge.label.length * 6), height: edge.label ? 16 : 0 };
    drawing.setEdge(`${edge.from}`, edge.to == null ? END_ID : `${edge.to}`, label, `${at}`);
  });
  layout(drawing);
  const places = new Map<string, { x: number; y: number }>();
  for (const id of drawing.nodes()) {
    const { x, y, width, height } = drawing.node(id) as {
      x: number;
      y: number;
      width: number;
      height: number;
    };
    places.set(id, { x: x - width / 2, y: y - height / 2 });
  }
  return places;
}

function drawEdges(
  graph: Graph,
  states: Map<number, NodeState> | undefined,
  selected: number | undefined,
): Edge[] {
  return graph.edges.map((edge, at) => {
    const isTaken = !!states?.has(edge.from) && (edge.to == null || states.has(edge.to));
    return {
      id: `${at}`,
      source: `${edge.from}`,
      target: edge.to == null ? END_ID : `${edge.to}`,
      label: edge.label.length > 28 ? `${edge.label.slice(0, 27)}…` : edge.label,
      type: "default",
      className: at === selected ? "edge-selected" : isTaken ? "edge-taken" : "edge-open",
      markerEnd: { type: MarkerType.ArrowClosed, width: 14, height: 14, color: "var(--line-strong)" },
      focusable: false,
    };
  });
}

const StepBox = memo(function StepBox({ data, selected }: NodeProps<StepNode>) {
  const { title, kind, state, time, isMarked, canConnect } = data;
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
          {describeTime(state, time) ?? kind}
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
