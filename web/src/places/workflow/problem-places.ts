// Where the problems of a source are: as notes of the editor, and on the nodes of the graph.
import { addMark } from "../../builder/marks";
import type { Fixes } from "../../builder/use-fixes";
import type { Graph } from "../../run/graph";
import { t } from "../../strings";
import type { Mark } from "../../ui/state";
import type { ByteMap } from "./bytes";
import type { Judgement } from "./use-draft";

export type ServerProblem = Judgement["problems"][number];

type FixAction = { fixes: Fixes; apply: (text: string) => void };

export function toDiagnostics(problems: ServerProblem[], map: ByteMap, fix: FixAction | undefined) {
  return problems
    .filter((problem) => problem.start != null)
    .map((problem) => ({
      from: map.toUnit(problem.start ?? 0),
      to: map.toUnit((problem.start ?? 0) + (problem.length ?? 0)),
      severity: problem.severity === "warning" ? ("warning" as const) : ("error" as const),
      message: [`${problem.code ?? ""} ${problem.message}`, problem.help].filter(Boolean).join("\n"),
      actions: toActions(problem, fix),
    }));
}

/** The button in the note of a problem. */
function toActions(problem: ServerProblem, fix: FixAction | undefined) {
  const changed = fix?.fixes.fixOf(problem);
  if (!fix || changed === undefined) return [];
  const name = typeof problem.fix === "string" ? problem.fix : t.build.fix;
  return [{ name, apply: () => fix.apply(changed) }];
}

export function markNodes(graph: Graph | undefined, problems: ServerProblem[]): ReadonlyMap<number, Mark> {
  const marks = new Map<number, Mark>();
  for (const { start, severity } of problems) {
    if (graph && start != null) addMark(marks, smallestAround(graph, start), severity);
  }
  return marks;
}

/** The node of a path, or the one around it. */
export function nearestPath(graph: Graph | undefined, path: string): string | undefined {
  const around = graph?.nodes.filter((node) => path === node.path || path.startsWith(`${node.path}/`));
  return around?.sort((one, other) => other.path.length - one.path.length)[0]?.path;
}

/** The smallest node around a byte of the entry file; -1 if there is none. */
export function smallestAround(graph: Graph, byte: number): number {
  let found = -1;
  graph.nodes.forEach((node, at) => {
    if (node.start == null || node.length == null) return;
    const isAround = node.start <= byte && byte <= node.start + node.length;
    const best = graph.nodes[found]?.length ?? Number.POSITIVE_INFINITY;
    if (isAround && node.length < best) found = at;
  });
  return found;
}

/** Why there is no graph. */
export function explainNoGraph({ isChecking, unknown }: Judgement): string {
  if (unknown) return t.workflow.graphUnknown;
  return isChecking ? t.loading : t.workflow.notDrawable;
}
