// The graph of a definition with the state of a run on it.
import type { Phase, RunState } from "./fold";
import { summarizeSteps, toStaticPath } from "./rows";

export type GraphNode = {
  path: string;
  title: string;
  kind: string;
  start?: number | null;
  length?: number | null;
};
export type GraphEdge = { from: number; to?: number | null; label: string };
export type Graph = { nodes: GraphNode[]; edges: GraphEdge[] };

/** What a run did at a node. */
export type NodeState = { phase: Phase; count: number; startedAt: number; endedAt: number | undefined };

/** Finds the node that a step belongs to: its own, or that of the step which started it. */
export class NodeFinder {
  private readonly nodes: Map<string, number>;
  private readonly found: (number | undefined)[] = [];

  constructor(graph: Graph) {
    this.nodes = new Map(graph.nodes.map((node, at) => [node.path, at]));
  }

  /** The states of the nodes, by their position; a node without a step has none. */
  statesOf(state: RunState): Map<number, NodeState> {
    const steps = new Map<number, number[]>();
    state.steps.forEach((step, at) => {
      const node = this.nodeOfStep(at, step.path);
      if (node === undefined) return;
      const known = steps.get(node);
      if (known) known.push(at);
      else steps.set(node, [at]);
    });
    const states = new Map<number, NodeState>();
    for (const [node, ofNode] of steps) {
      const summary = summarizeSteps(state, this.ownSteps(state, node, ofNode));
      if (summary) states.set(node, summary);
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

  /** The steps that are the node itself: its iterations, or the one of its path; all within it if there are none. */
  private ownSteps(state: RunState, node: number, steps: number[]): number[] {
    const pathOf = (at: number) => state.steps[at]?.path ?? "";
    const own = steps.filter((at) => this.nodes.get(toStaticPath(pathOf(at))) === node);
    const iterations = own.filter((at) => toStaticPath(pathOf(at)) !== pathOf(at));
    return iterations.length > 0 ? iterations : own.length > 0 ? own : steps;
  }

  private nodeOfStep(at: number, path: string): number | undefined {
    if (!(at in this.found)) this.found[at] = this.nodeOf(path);
    return this.found[at];
  }
}
