// The graph of the builder: the nodes and connections of a definition, known before it compiles, or the steps of its plan.
import type { Graph, GraphNode } from "../run/graph";
import { t } from "../strings";
import type { Inspection, Part } from "./definition";
import { kindOf, subtitleOf, titleOf } from "./part-name";
import { keyOf } from "./path";

/** The graph of a format with nodes; `parts` are the positions of the nodes among the parts. */
export function graphOf(inspection: Inspection): { graph: Graph; parts: number[]; links: (number | null)[] } {
  const parts = inspection.parts.flatMap((part, at) => (part.list === "nodes" ? [at] : []));
  const positions = new Map(parts.map((part, at) => [part, at]));
  const nodes = parts.flatMap((at) => {
    const part = inspection.parts[at];
    return part ? [{ path: keyOf(part.path as never), ...nodeOf(part) }] : [];
  });
  const shown = inspection.links.filter((link) => positions.has(link.from));
  const edges = shown.map((link) => ({
    from: positions.get(link.from) ?? 0,
    to: link.to == null ? null : (positions.get(link.to) ?? null),
    label: link.label,
  }));
  return { graph: { nodes, edges }, parts, links: shown.map((link) => link.part ?? null) };
}

/** The parts of the steps, by their paths. A container has the path of its first step: of those, the innermost counts. */
export function mapSteps(parts: readonly Part[]): ReadonlyMap<string, Part> {
  // A part comes after the one around it.
  return new Map(parts.flatMap((part) => (part.step == null ? [] : [[part.step, part] as const])));
}

/** The steps of a flow behind the one with which it ends: they are in no plan. Without a plan, none is known. */
export function listUnreached(parts: readonly Part[]): Part[] {
  const steps = parts.filter(({ list }) => list === "steps");
  return steps.some(({ step }) => step != null) ? steps.filter(({ step }) => step == null) : [];
}

/** The graph with steps that never run, to which nothing leads. */
export function addUnreached(graph: Graph, unreached: readonly Part[]): Graph {
  const nodes = unreached.map((part) => ({
    path: keyOf(part.path as never),
    ...nodeOf(part),
    about: t.build.neverRuns,
  }));
  return unreached.length === 0 ? graph : { ...graph, nodes: [...graph.nodes, ...nodes] };
}

/** The graph of a plan, with the names that the list of parts shows. */
export function nameNodes(graph: Graph, parts: readonly (Part | undefined)[]): Graph {
  const nodes = graph.nodes.map((node, at) => {
    const part = parts[at];
    if (!part) return node;
    // The text below the title has the detail already.
    const { detail: _, ...rest } = node;
    return { ...rest, ...nodeOf(part) };
  });
  return { ...graph, nodes };
}

function nodeOf(part: Part): Pick<GraphNode, "title" | "kind" | "about"> {
  return { title: titleOf(part), kind: kindOf(part), about: subtitleOf(part) };
}
