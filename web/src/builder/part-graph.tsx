// The graph of a definition in the builder: its nodes and connections, or the steps of its plan.
import { lazy, Suspense, useMemo } from "react";
import type { Graph } from "../run/graph";
import { t } from "../strings";
import type { Mark } from "../ui/state";
import { addUnreached, graphOf, listUnreached, mapSteps, nameNodes } from "./build-graph";
import type { Edit, Inspection } from "./definition";
import type { Outcome } from "./edit-queue";
import { WHOLE } from "./part-list";
import { keyOf, type Path } from "./path";

const FlowGraph = lazy(() => import("../ui/flow-graph").then((part) => ({ default: part.FlowGraph })));

type PartGraphProps = {
  /** The graph of the plan, for formats whose steps run in their order. */
  graph: Graph | undefined;
  whyNoGraph: string;
  format: string;
  /** Whether the steps of the parts are those of an earlier text. */
  hasOldSteps: boolean;
  isReadOnly: boolean;
  inspection: Inspection;
  selected: string;
  marked: ReadonlyMap<string, Mark>;
  onSelect: (key: string) => void;
  change: (edits: Edit[]) => Promise<Outcome>;
};

export function PartGraph(props: PartGraphProps) {
  const {
    graph,
    whyNoGraph,
    format,
    hasOldSteps,
    isReadOnly,
    inspection,
    selected,
    marked,
    onSelect,
    change,
  } = props;
  const hasNodes = inspection.lists.some((list) => list.name === "nodes");
  const own = useMemo(() => (hasNodes ? graphOf(inspection) : undefined), [hasNodes, inspection]);
  const unreached = useMemo(
    () => (format === "flow" && graph && !hasOldSteps ? listUnreached(inspection.parts) : []),
    [format, graph, hasOldSteps, inspection],
  );
  /** The parts of the nodes, by their position. */
  const parts = useMemo(() => {
    if (own) return own.parts.map((at) => inspection.parts[at]);
    const ofSteps = mapSteps(inspection.parts);
    return [...(graph?.nodes.map((node) => ofSteps.get(node.path)) ?? []), ...unreached];
  }, [own, graph, inspection, unreached]);
  const shown = useMemo(
    () => own?.graph ?? (graph && addUnreached(nameNodes(graph, parts), unreached)),
    [own, graph, parts, unreached],
  );
  const nodeMarks = useMemo(() => {
    const marks = parts.map((part, node) => [node, part && marked.get(keyOf(part.path as Path))] as const);
    return new Map(marks.filter((pair): pair is [number, Mark] => pair[1] !== undefined));
  }, [parts, marked]);
  if (!shown && inspection.parts.length > 0) return <p className="empty">{whyNoGraph}</p>;
  if (!shown || shown.nodes.length === 0) return <p className="empty">{t.build.empty}</p>;
  const chosen = parts.findIndex((part) => part && keyOf(part.path as Path) === selected);
  const chosenEdge = own?.links.findIndex(
    (link) => link !== null && keyOf((inspection.parts[link]?.path ?? []) as Path) === selected,
  );
  const pathAt = (node: number) => (parts[node]?.path ?? []) as Path;
  return (
    <Suspense fallback={<p className="empty">{t.loading}</p>}>
      <FlowGraph
        graph={shown}
        selected={chosen === -1 ? undefined : chosen}
        marked={nodeMarks}
        onSelect={(node) => {
          const part = node === undefined ? undefined : parts[node];
          onSelect(part ? keyOf(part.path as Path) : WHOLE);
        }}
        {...(own && {
          selectedEdge: chosenEdge,
          onSelectEdge: (edge: number) => {
            const link = own.links[edge];
            const part = link == null ? undefined : inspection.parts[link];
            if (part) onSelect(keyOf(part.path as Path));
          },
        })}
        {...(own &&
          !isReadOnly && {
            hasEnd: format === "graph",
            onConnect: (from: number, to: number | undefined) =>
              void change([
                { do: "connect", path: pathAt(from), target: to === undefined ? null : pathAt(to) },
              ]),
          })}
      />
    </Suspense>
  );
}
