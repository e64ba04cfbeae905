// The panes of a workflow: the builder, or the source next to the graph. The editor is always there, because its history
// is that of the forms, too.
import { useNavigate, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useMemo, useState } from "react";
import type { Schemas } from "../../api/client";
import type { Depths, History } from "../../builder/history";
import { addMark } from "../../builder/marks";
import { useBuilder } from "../../builder/use-builder";
import { type Fixes, useFixes } from "../../builder/use-fixes";
import { readView, rememberView, VIEWS, type View } from "../../builder/view";
import type { Graph } from "../../run/graph";
import { t } from "../../strings";
import { IconButton } from "../../ui/button";
import { isWriting, useKeys } from "../../ui/keyboard";
import type { Mark } from "../../ui/state";
import { Tabs } from "../../ui/tabs";
import { CostPlan } from "../cost/cost-plan";
import { ByteMap } from "./bytes";
import type { Range } from "./editor";
import { FoldedProblems, ProblemList } from "./problem-list";
import type { UnsavedChanges } from "./run-dialog";
import type { Judgement, Source } from "./use-draft";

const Editor = lazy(() => import("./editor"));
const BuilderPane = lazy(() => import("../../builder/builder-pane"));
const FlowGraph = lazy(() => import("../../ui/flow-graph").then((part) => ({ default: part.FlowGraph })));

type Pane = "source" | "graph";

const NO_HISTORY: Depths = { canUndo: false, canRedo: false };

type PanesProps = {
  workflow: Schemas["WorkflowInfo"];
  source: Source;
  isReadOnly: boolean;
  unsaved: UnsavedChanges | undefined;
  judgement: Judgement;
  onEdit: (file: string, text: string) => void;
};

export function Panes({ workflow, source, isReadOnly, unsaved, judgement, onEdit }: PanesProps) {
  const search = useSearch({ from: "/workflows/$workflow" });
  const navigate = useNavigate({ from: "/workflows/$workflow" });
  const [file, setFile] = useState(source.entry);
  const [pane, setPane] = useState<Pane>("source");
  const [shown, setShown] = useState<Range>();
  const [first] = useState(() => readView(source.entry));
  const view = VIEWS.find((one) => one === search.view) ?? first;
  const [history, setHistory] = useState<History>();
  const [depths, setDepths] = useState(NO_HISTORY);
  const format = workflow.format;
  const builder = useBuilder(source, format, onEdit);
  const fixes = useFixes(source, format, judgement.problems);
  const files = Object.keys(source.files).sort();
  const text = source.files[file] ?? "";
  const map = useMemo(() => new ByteMap(text), [text]);
  const { graph, problems } = judgement;
  const isEntry = file === source.entry;
  const diagnostics = useMemo(() => {
    const fix = isReadOnly ? undefined : { fixes, apply: (changed: string) => onEdit(source.entry, changed) };
    return isEntry ? toDiagnostics(problems, map, fix) : [];
  }, [problems, isEntry, map, fixes, isReadOnly, onEdit, source.entry]);
  const marked = useMemo(() => markNodes(graph, problems), [graph, problems]);
  const setStep = (step: string | undefined) =>
    void navigate({
      search: ({ step: _, ...before }) => (step === undefined ? before : { ...before, step }),
      replace: true,
    });
  const selected = graph?.nodes.findIndex((node) => node.path === search.step);
  const select = (node: number | undefined) => {
    const chosen = node === undefined ? undefined : graph?.nodes[node];
    setStep(chosen?.path);
    if (chosen?.start == null || !isEntry) return;
    setShown({ from: map.toUnit(chosen.start), to: map.toUnit(chosen.start + (chosen.length ?? 0)) });
  };
  const followCursor = (unit: number) => {
    if (!graph || !isEntry) return;
    const byte = map.toByte(unit);
    const path = graph.nodes[smallestAround(graph, byte)]?.path;
    if (path !== search.step) setStep(path);
  };
  const showStep = (path: string) => {
    choose("build");
    setStep(nearestPath(graph, path) ?? path);
  };
  const choose = (next: View) => {
    rememberView(next);
    void navigate({ search: (before) => ({ ...before, view: next }), replace: true });
    // Forms change the definition itself, and undo takes their changes back in its editor.
    if (next === "build") setFile(source.entry);
  };
  useKeys((event) => {
    if (view !== "build" || !(event.ctrlKey || event.metaKey) || isWriting(event)) return;
    const isRedo = event.key === "y" || (event.key.toLowerCase() === "z" && event.shiftKey);
    if (!isRedo && event.key !== "z") return;
    event.preventDefault();
    if (isRedo) history?.redo();
    else history?.undo();
  });
  const definition = useMemo(() => ({ source, file, format }), [source, file, format]);
  const openProblem = (problem: ServerProblem) => {
    if (problem.start == null) return;
    const from = map.toUnit(problem.start);
    setShown({ from, to: map.toUnit(problem.start + (problem.length ?? 0)) });
    const path = graph?.nodes[smallestAround(graph, problem.start)]?.path;
    if (path) setStep(path);
  };
  return (
    <>
      <div className="view-bar">
        <Tabs
          label={t.build.view}
          selected={view}
          onSelect={choose}
          tabs={[
            { name: "build", title: t.build.build },
            { name: "source", title: t.build.source },
            { name: "cost", title: t.cost.title },
          ]}
        />
        {!isReadOnly && (
          <div className="view-history">
            <IconButton
              icon="undo"
              label={t.build.undo}
              disabled={!depths.canUndo}
              onClick={() => history?.undo()}
            />
            <IconButton
              icon="redo"
              label={t.build.redo}
              disabled={!depths.canRedo}
              onClick={() => history?.redo()}
            />
          </div>
        )}
      </div>
      {view === "build" && (
        <div className="build-view">
          <Suspense fallback={<p className="empty">{t.loading}</p>}>
            <BuilderPane
              source={source}
              format={format}
              workflow={workflow.id}
              isReadOnly={isReadOnly}
              builder={builder}
              graph={graph}
              problems={problems}
              unsaved={unsaved}
              step={search.step}
              onStep={setStep}
              onEdit={onEdit}
              onFile={setFile}
            />
          </Suspense>
          {problems.length > 0 && (
            <FoldedProblems
              judgement={judgement}
              fixes={isReadOnly ? undefined : fixes}
              onFix={(text) => onEdit(source.entry, text)}
              onOpen={openProblem}
            />
          )}
        </div>
      )}
      {view === "cost" && (
        <section className="cost-view" aria-label={t.cost.title}>
          <CostPlan request={{ source }} onStep={showStep} />
        </section>
      )}
      <div className="run-panes-tabs" hidden={view !== "source"}>
        <Tabs
          label={t.palette.workflow}
          selected={pane}
          onSelect={setPane}
          tabs={[
            { name: "source", title: t.workflow.source },
            { name: "graph", title: t.workflow.graph },
          ]}
        />
      </div>
      <div className="workflow-panes" data-pane={pane} hidden={view !== "source"}>
        <section className="source-pane" aria-label={t.workflow.source}>
          {files.length > 1 && (
            <Tabs
              label={t.workflow.files}
              selected={file}
              onSelect={setFile}
              tabs={files.map((name) => ({ name, title: name }))}
            />
          )}
          <Suspense fallback={<p className="empty">{t.loading}</p>}>
            <Editor
              file={file}
              text={text}
              isReadOnly={isReadOnly}
              diagnostics={diagnostics}
              shown={shown}
              definition={definition}
              onChange={(changed) => onEdit(file, changed)}
              onMove={followCursor}
              onReady={setHistory}
              onHistory={setDepths}
            />
          </Suspense>
          <ProblemList
            judgement={judgement}
            fixes={isReadOnly ? undefined : fixes}
            onFix={(changed) => onEdit(source.entry, changed)}
            onOpen={openProblem}
          />
        </section>
        <section className="graph-pane" aria-label={t.workflow.graph}>
          {view === "source" && graph ? (
            <Suspense fallback={<p className="empty">{t.loading}</p>}>
              <FlowGraph
                graph={graph}
                selected={selected === -1 ? undefined : selected}
                marked={marked}
                onSelect={select}
              />
            </Suspense>
          ) : (
            <p className="empty">{judgement.isChecking ? t.loading : t.workflow.notDrawable}</p>
          )}
        </section>
      </div>
    </>
  );
}

type ServerProblem = Judgement["problems"][number];

type FixAction = { fixes: Fixes; apply: (text: string) => void };

function toDiagnostics(problems: ServerProblem[], map: ByteMap, fix: FixAction | undefined) {
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

function markNodes(graph: Graph | undefined, problems: ServerProblem[]): ReadonlyMap<number, Mark> {
  const marks = new Map<number, Mark>();
  for (const { start, severity } of problems) {
    if (graph && start != null) addMark(marks, smallestAround(graph, start), severity);
  }
  return marks;
}

/** The node of a path, or the one around it. */
function nearestPath(graph: Graph | undefined, path: string): string | undefined {
  const around = graph?.nodes.filter((node) => path === node.path || path.startsWith(`${node.path}/`));
  return around?.sort((one, other) => other.path.length - one.path.length)[0]?.path;
}

/** The smallest node around a byte of the entry file; -1 if there is none. */
function smallestAround(graph: Graph, byte: number): number {
  let found = -1;
  graph.nodes.forEach((node, at) => {
    if (node.start == null || node.length == null) return;
    const isAround = node.start <= byte && byte <= node.start + node.length;
    const best = graph.nodes[found]?.length ?? Number.POSITIVE_INFINITY;
    if (isAround && node.length < best) found = at;
  });
  return found;
}
