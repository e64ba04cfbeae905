// The views of a workflow: the builder, the source next to the graph, or its cost.
import { useNavigate, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useMemo, useState } from "react";
import type { Schemas } from "../../api/client";
import type { Depths, History } from "../../builder/history";
import { type Builder, useBuilder } from "../../builder/use-builder";
import { type Fixes, useFixes } from "../../builder/use-fixes";
import { readView, rememberView, VIEWS, type View } from "../../builder/view";
import { t } from "../../strings";
import { CostPlan } from "../cost/cost-plan";
import { ByteMap } from "./bytes";
import type { Range } from "./editor";
import { FoldedProblems } from "./problem-list";
import { explainNoGraph, nearestPath, type ServerProblem, smallestAround } from "./problem-places";
import type { UnsavedChanges } from "./run-dialog";
import { SourceView } from "./source-view";
import type { Judgement, Source } from "./use-draft";
import { ViewBar } from "./view-bar";

const BuilderPane = lazy(() => import("../../builder/builder-pane"));

const NO_HISTORY: Depths = { canUndo: false, canRedo: false };

type PanesProps = {
  workflow: Schemas["WorkflowInfo"];
  source: Source;
  isReadOnly: boolean;
  unsaved: UnsavedChanges | undefined;
  judgement: Judgement;
  onEdit: (file: string, text: string) => void;
};

export function Panes(props: PanesProps) {
  const { workflow, source, isReadOnly, judgement, onEdit } = props;
  const [history, setHistory] = useState<History>();
  const [depths, setDepths] = useState(NO_HISTORY);
  const builder = useBuilder(source, workflow.format, onEdit);
  const fixes = useFixes(source, workflow.format, judgement.problems);
  const place = useOpenPlace(source, judgement);
  const { view, file } = place;
  return (
    <>
      <ViewBar
        view={view}
        onChoose={place.choose}
        isReadOnly={isReadOnly}
        history={history}
        depths={depths}
        kept={builder.kept}
      />
      {view === "build" && <BuildView {...props} builder={builder} fixes={fixes} place={place} />}
      {view === "cost" && (
        <section className="cost-view" aria-label={t.cost.title}>
          <CostPlan request={{ source }} onStep={place.showStep} />
        </section>
      )}
      <SourceView
        isShown={view === "source"}
        source={source}
        format={workflow.format}
        file={file}
        onFile={place.setFile}
        map={place.map}
        shown={place.shown}
        judgement={judgement}
        fixes={isReadOnly ? undefined : fixes}
        step={place.step}
        onSelect={place.selectNode}
        onMove={place.followCursor}
        onProblem={place.openProblem}
        onEdit={onEdit}
        onReady={setHistory}
        onHistory={setDepths}
      />
    </>
  );
}

type OpenPlace = ReturnType<typeof useOpenPlace>;

/** The shown part of a workflow: the view, the file, and the step. Source, graph and forms follow each other. */
function useOpenPlace(source: Source, { graph }: Judgement) {
  const search = useSearch({ from: "/workflows/$workflow" });
  const navigate = useNavigate({ from: "/workflows/$workflow" });
  const [first] = useState(() => readView(source.entry));
  const [file, setFile] = useState(source.entry);
  const [shown, setShown] = useState<Range>();
  const text = source.files[file] ?? "";
  const map = useMemo(() => new ByteMap(text), [text]);
  const isEntry = file === source.entry;
  const setStep = (step: string | undefined) =>
    void navigate({
      search: ({ step: _, ...before }) => (step === undefined ? before : { ...before, step }),
      replace: true,
    });
  const view = VIEWS.find((one) => one === search.view) ?? first;
  const choose = (next: View) => {
    rememberView(next);
    // The view that is shown already is no step of the history.
    void navigate({ search: (before) => ({ ...before, view: next }), replace: next === view });
    // Forms change the definition itself, and undo takes their changes back in its editor.
    if (next === "build") setFile(source.entry);
  };
  const show = (start: number, length: number) =>
    setShown({ from: map.toUnit(start), to: map.toUnit(start + length) });
  const stepAt = (byte: number) => graph?.nodes[smallestAround(graph, byte)]?.path;
  return {
    view,
    step: search.step,
    file,
    map,
    shown,
    setFile,
    setStep,
    choose,
    selectNode: (node: number | undefined) => {
      const chosen = node === undefined ? undefined : graph?.nodes[node];
      setStep(chosen?.path);
      if (chosen?.start != null && isEntry) show(chosen.start, chosen.length ?? 0);
    },
    followCursor: (unit: number) => {
      if (!graph || !isEntry) return;
      const path = stepAt(map.toByte(unit));
      if (path !== search.step) setStep(path);
    },
    showStep: (path: string) => {
      choose("build");
      setStep(nearestPath(graph, path) ?? path);
    },
    openProblem: (problem: ServerProblem) => {
      if (problem.start == null) return;
      show(problem.start, problem.length ?? 0);
      const path = stepAt(problem.start);
      if (path) setStep(path);
    },
  };
}

type BuildViewProps = PanesProps & { builder: Builder; fixes: Fixes; place: OpenPlace };

function BuildView(props: BuildViewProps) {
  const { workflow, source, isReadOnly, unsaved, judgement, onEdit, builder, fixes, place } = props;
  return (
    <div className="build-view">
      <Suspense fallback={<p className="empty">{t.loading}</p>}>
        <BuilderPane
          source={source}
          format={workflow.format}
          workflow={workflow.id}
          isReadOnly={isReadOnly}
          builder={builder}
          graph={judgement.graph}
          whyNoGraph={explainNoGraph(judgement)}
          problems={judgement.problems}
          unsaved={unsaved}
          step={place.step}
          onStep={place.setStep}
          onEdit={onEdit}
          onFile={place.setFile}
        />
      </Suspense>
      {(judgement.problems.length > 0 || judgement.unknown) && (
        <FoldedProblems
          judgement={judgement}
          fixes={isReadOnly ? undefined : fixes}
          onFix={(text) => onEdit(source.entry, text)}
          onOpen={place.openProblem}
        />
      )}
    </div>
  );
}
