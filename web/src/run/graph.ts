// The graph of a definition with the state of a run on it.
import { toWords } from "../ui/words";
import type { RunState } from "./fold";
import { continueSummary, type ShownPhase, sumDurations, summarizeSteps, toStaticPath } from "./rows";

export type GraphNode = {
  path: string;
  title: string;
  kind: string;
  /** The text below the title; without it, the kind. */
  about?: string;
  /** The text that distinguishes nodes with one title: the id of a pipeline node, or the variable that a block sets. */
  detail?: string;
  start?: number | null;
  length?: number | null;
  /** The number of steps that the node stands for, if it is a fan-out. */
  members?: number;
};
export type GraphEdge = { from: number; to?: number | null; label: string };
export type Graph = { nodes: GraphNode[]; edges: GraphEdge[] };

/** The id that a pipeline gives a node, where its title is that of its block; undefined if the title contains it. */
function nodeIdOf({ path, title }: GraphNode): string | undefined {
  const id = /^\/nodes~1\/([^/~]+)$/.exec(path)?.[1];
  return id === title ? undefined : id;
}

/** The title of a block of a flow: its type, and the variable that it sets. */
const BLOCK_TITLE = /^(start|apiCall|llmInstruction|webScraping)(?: → (.+))?$/s;

/** A node in the words that its builder has for it. */
function nameNode(node: GraphNode): GraphNode {
  const [, type, variable] = BLOCK_TITLE.exec(node.title) ?? [];
  const detail = variable ?? nodeIdOf(node);
  const named = type === undefined ? node : { ...node, title: toWords(type) };
  return detail === undefined ? named : { ...named, detail };
}

/** A graph in the words that readers know from the builder. */
export function nameGraph(graph: Graph): Graph {
  return { ...graph, nodes: graph.nodes.map(nameNode) };
}

/** The name of a node in one line. The distinguishing part comes first: the end may be cut. */
export function lineOf({ title, detail }: GraphNode): string {
  return detail === undefined ? title : `${detail} · ${title}`;
}

/** What a run did at a node. */
export type NodeState = {
  phase: ShownPhase;
  count: number;
  startedAt: number;
  endedAt: number | undefined;
  /** The time of all visits, if there were several. */
  visitsMs?: number;
  warnings: number;
};

/** How a step belongs to a node: as one of its iterations, as the node itself, or as a step within it. */
type Rank = 0 | 1 | 2;
type NodeLink = { node: number | undefined; rank: Rank };

/** The time of the visits that these steps are. */
function sumVisits(state: RunState, steps: readonly number[]): number {
  return sumDurations(steps.map((at) => summarizeSteps(state, [at])));
}

/** The end of the path of a visit, which has events of its own. */
const VISIT = /#\d+$/;

/** Finds the node that a step belongs to: its own, or that of the step which started it. */
export class NodeFinder {
  private readonly nodes: Map<string, number>;
  /** The nodes that stand for several steps. */
  private readonly folded: ReadonlySet<number>;
  /** By position of the step. The path of a step never changes. */
  private readonly links: NodeLink[] = [];

  constructor(graph: Graph) {
    this.nodes = new Map(graph.nodes.map((node, at) => [node.path, at]));
    this.folded = new Set(graph.nodes.flatMap((node, at) => (node.members === undefined ? [] : [at])));
  }

  /** The states of the nodes, by their position; a node without a step has none. */
  statesOf(state: RunState): Map<number, NodeState> {
    const found = new Map<number, { rank: Rank; steps: number[] }>();
    const whole = new Set<number>();
    const visited = new Set<number>();
    state.steps.forEach((step, at) => {
      const { node, rank } = this.linkOf(at, step.path);
      if (node === undefined) return;
      if (rank === 0 && VISIT.test(step.path)) visited.add(node);
      if (rank === 1) whole.add(node);
      const known = found.get(node);
      // Iterations say more than the loop around them, and the node itself more than what it started.
      if (!known || rank < known.rank) found.set(node, { rank, steps: [at] });
      else if (rank === known.rank) known.steps.push(at);
    });
    const states = new Map<number, NodeState>();
    for (const [node, { steps }] of found) {
      const sum = summarizeSteps(state, steps);
      const isWhole = whole.has(node) || visited.has(node);
      const summary = isWhole ? sum : continueSummary(state, steps, sum);
      if (!summary) continue;
      const isOver = visited.has(node) && summary.count > 1 && summary.endedAt !== undefined;
      states.set(node, isOver ? { ...summary, visitsMs: sumVisits(state, steps) } : summary);
    }
    return states;
  }

  /** The node of a path. */
  nodeOf(path: string): number | undefined {
    for (let rest = toStaticPath(path); rest !== ""; rest = rest.slice(0, rest.lastIndexOf("/"))) {
      const node = this.nodes.get(rest);
      if (node !== undefined) return node;
    }
    return this.nodes.get("/");
  }

  private linkOf(at: number, path: string): NodeLink {
    const known = this.links[at];
    if (known) return known;
    const fixed = toStaticPath(path);
    const node = this.nodeOf(path);
    const isOwn = this.nodes.get(fixed) === node;
    // Of a fan-out, its members say what happened.
    const isMember = !isOwn && node !== undefined && this.folded.has(node);
    const link: NodeLink = { node, rank: isMember ? 0 : !isOwn ? 2 : fixed === path ? 1 : 0 };
    this.links[at] = link;
    return link;
  }
}
