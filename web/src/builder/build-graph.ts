// The nodes and connections of a definition as a graph: known before it compiles.
import type { Graph } from "../run/graph";
import type { Inspection } from "./definition";
import { titleOf } from "./part-list";
import { keyOf } from "./path";

/** The graph of a format with nodes; `parts` are the positions of the nodes among the parts. */
export function graphOf(inspection: Inspection): { graph: Graph; parts: number[]; links: (number | null)[] } {
  const parts = inspection.parts.flatMap((part, at) => (part.list === "nodes" ? [at] : []));
  const positions = new Map(parts.map((part, at) => [part, at]));
  const nodes = parts.flatMap((at) => {
    const part = inspection.parts[at];
    return part ? [{ path: keyOf(part.path as never), title: titleOf(part), kind: kindOf(part.kind) }] : [];
  });
  const shown = inspection.links.filter((link) => positions.has(link.from));
  const edges = shown.map((link) => ({
    from: positions.get(link.from) ?? 0,
    to: link.to == null ? null : (positions.get(link.to) ?? null),
    label: link.label,
  }));
  return { graph: { nodes, edges }, parts, links: shown.map((link) => link.part ?? null) };
}

/** The kind of a node in the words of the engine, for its icon. */
function kindOf(kind: string): string {
  return { AGENT: "agent", TOOL_EXECUTOR: "tools", HUMAN_HANDOFF: "ask" }[kind] ?? kind;
}
