// The source of a workflow next to its graph. It stays while another view is shown: its editor keeps the history.
import { lazy, Suspense, useMemo, useState } from "react";
import type { Depths, History } from "../../builder/history";
import type { Fixes } from "../../builder/use-fixes";
import { t } from "../../strings";
import { Tabs } from "../../ui/tabs";
import type { ByteMap } from "./bytes";
import type { Range } from "./editor";
import { ProblemList } from "./problem-list";
import { explainNoGraph, markNodes, type ServerProblem, toDiagnostics } from "./problem-places";
import type { Judgement, Source } from "./use-draft";

const Editor = lazy(() => import("./editor"));
const FlowGraph = lazy(() => import("../../ui/flow-graph").then((part) => ({ default: part.FlowGraph })));

type Pane = "source" | "graph";

type SourceViewProps = {
  isShown: boolean;
  source: Source;
  format: string | undefined;
  file: string;
  onFile: (file: string) => void;
  map: ByteMap;
  /** What the editor goes to. */
  shown: Range | undefined;
  judgement: Judgement;
  /** The fixes of the problems; undefined if the source cannot be changed. */
  fixes: Fixes | undefined;
  step: string | undefined;
  onSelect: (node: number | undefined) => void;
  /** Called with the position of the cursor. */
  onMove: (unit: number) => void;
  onProblem: (problem: ServerProblem) => void;
  onEdit: (file: string, text: string) => void;
  onReady: (history: History | undefined) => void;
  onHistory: (depths: Depths) => void;
};

export function SourceView(props: SourceViewProps) {
  const { isShown, source, judgement, fixes, onEdit, onProblem } = props;
  const [pane, setPane] = useState<Pane>("source");
  return (
    <>
      <div className="run-panes-tabs" hidden={!isShown}>
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
      <div className="workflow-panes" data-pane={pane} hidden={!isShown}>
        <section className="source-pane" aria-label={t.workflow.source}>
          <SourceEditor {...props} />
          <ProblemList
            judgement={judgement}
            fixes={fixes}
            onFix={(changed) => onEdit(source.entry, changed)}
            onOpen={onProblem}
          />
        </section>
        <section className="graph-pane" aria-label={t.workflow.graph}>
          <SourceGraph {...props} />
        </section>
      </div>
    </>
  );
}

function SourceEditor(props: SourceViewProps) {
  const { source, format, file, onFile, map, judgement, fixes, onEdit } = props;
  const files = Object.keys(source.files).sort();
  const isEntry = file === source.entry;
  const definition = useMemo(() => ({ source, file, format }), [source, file, format]);
  const diagnostics = useMemo(() => {
    const fix = fixes && { fixes, apply: (changed: string) => onEdit(source.entry, changed) };
    return isEntry ? toDiagnostics(judgement.problems, map, fix) : [];
  }, [judgement.problems, isEntry, map, fixes, onEdit, source.entry]);
  return (
    <>
      {files.length > 1 && (
        <Tabs
          label={t.workflow.files}
          selected={file}
          onSelect={onFile}
          tabs={files.map((name) => ({ name, title: name }))}
        />
      )}
      <Suspense fallback={<p className="empty">{t.loading}</p>}>
        <Editor
          file={file}
          text={source.files[file] ?? ""}
          isReadOnly={fixes === undefined}
          diagnostics={diagnostics}
          shown={props.shown}
          definition={definition}
          onChange={(changed) => onEdit(file, changed)}
          onMove={props.onMove}
          onReady={props.onReady}
          onHistory={props.onHistory}
        />
      </Suspense>
    </>
  );
}

function SourceGraph({ isShown, judgement, step, onSelect }: SourceViewProps) {
  const { graph, problems } = judgement;
  const marked = useMemo(() => markNodes(graph, problems), [graph, problems]);
  if (!isShown || !graph) {
    return <p className="empty">{explainNoGraph(judgement)}</p>;
  }
  const selected = graph.nodes.findIndex((node) => node.path === step);
  return (
    <Suspense fallback={<p className="empty">{t.loading}</p>}>
      <FlowGraph
        graph={graph}
        selected={selected === -1 ? undefined : selected}
        marked={marked}
        onSelect={onSelect}
      >
        {judgement.unknown && <p className="graph-note soft">{t.workflow.graphOutdated}</p>}
      </FlowGraph>
    </Suspense>
  );
}
