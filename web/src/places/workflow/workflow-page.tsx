// The workflow page: source and graph side by side, linked in both directions, with what the server says about them.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useCallback, useMemo, useState } from "react";
import { ApiError, type Schemas } from "../../api/client";
import { runsQuery, workflowQuery } from "../../api/queries";
import type { Graph } from "../../run/graph";
import type { RunStatus } from "../../run/record";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { formatAge } from "../../ui/format";
import { useKeys } from "../../ui/keyboard";
import { Empty, ErrorBox, Problem } from "../../ui/problem";
import { StatusMark } from "../../ui/state";
import { Tabs } from "../../ui/tabs";
import { ByteMap } from "./bytes";
import { CopyDialog } from "./copy-dialog";
import type { Range } from "./editor";
import { ProblemList } from "./problem-list";
import { RunDialog } from "./run-dialog";
import { SnippetsDialog } from "./snippets";
import {
  isConflict,
  type Judgement,
  type Source,
  saveSource,
  useJudgement,
  useStoredSource,
} from "./use-draft";
import { VersionsDialog } from "./versions";
import "./workflow.css";

const Editor = lazy(() => import("./editor"));
const FlowGraph = lazy(() => import("../../ui/flow-graph").then((part) => ({ default: part.FlowGraph })));

type Workflow = Schemas["WorkflowInfo"];
type Overlay = "run" | "versions" | "snippets" | "copy" | undefined;
type Pane = "source" | "graph";

export function WorkflowPage() {
  const { workflow: id } = useParams({ from: "/workflows/$workflow" });
  const { data, error } = useQuery(workflowQuery(id));
  const stored = useStoredSource(id, data?.file != null);
  const problem = error ?? stored.error;
  if (problem instanceof ApiError && problem.status === 404) {
    return <Empty title={t.errors.notFound}>{t.workflow.notFound}</Empty>;
  }
  if (problem) {
    return (
      <div className="page">
        <ErrorBox error={problem} />
      </div>
    );
  }
  if (!data || !stored.data) return <p className="page soft">{t.loading}</p>;
  return <OpenWorkflow key={id} workflow={data} stored={stored.data} />;
}

type Stored = { source: Source; tag: string | null };

function OpenWorkflow({ workflow, stored }: { workflow: Workflow; stored: Stored }) {
  const queries = useQueryClient();
  const isFile = workflow.file != null;
  const [edited, setEdited] = useState<Stored>();
  const source = edited?.source ?? stored.source;
  const judgement = useJudgement(source);
  const [overlay, setOverlay] = useState<Overlay>();
  const [notice, setNotice] = useState<string>();
  const edit = useCallback(
    (file: string, text: string) => {
      setNotice(undefined);
      setEdited((before) => {
        const base = before ?? stored;
        return { tag: base.tag, source: { ...base.source, files: { ...base.source.files, [file]: text } } };
      });
    },
    [stored],
  );
  const save = useMutation({
    mutationFn: (draft: Stored) => saveSource(workflow.id, draft.source, { tag: draft.tag }),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["workflows"] });
      setEdited(undefined);
      setNotice(t.workflow.saved);
    },
  });
  const isChanged = edited !== undefined;
  const canSave = isChanged && !isFile && !save.isPending;
  useKeys((event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    if (event.key === "s") {
      event.preventDefault();
      if (canSave && edited) save.mutate(edited);
    } else if (event.key === "Enter" && overlay === undefined) {
      event.preventDefault();
      setOverlay("run");
    }
  });
  const saveLabel = judgement.isRefused ? t.workflow.saveDraft : t.workflow.save;
  const restore = (version: Source, number: number) => {
    setEdited({ source: version, tag: stored.tag });
    setNotice(t.workflow.restored(number));
    setOverlay(undefined);
  };
  const loadTheirs = () => {
    save.reset();
    setEdited(undefined);
    void queries.invalidateQueries({ queryKey: ["workflows", workflow.id] });
  };
  return (
    <div className="workflow">
      <header className="workflow-head">
        <div className="run-title">
          <h1 className="cut">{workflow.name || workflow.id}</h1>
          <span className="badge">{workflow.format}</span>
          {workflow.version != null && <span className="badge">{t.workflow.version(workflow.version)}</span>}
          <span className="soft" aria-live="polite">
            {isChanged ? t.workflow.unsaved : notice}
          </span>
        </div>
        <LastRuns workflow={workflow.id} />
        <div className="workflow-actions">
          <Button look="quiet" onClick={() => setOverlay("snippets")}>
            {t.workflow.use}
          </Button>
          {isFile ? (
            <Button look="quiet" onClick={() => setOverlay("copy")}>
              {t.workflow.copy}
            </Button>
          ) : (
            <>
              <Button look="quiet" onClick={() => setOverlay("versions")}>
                {t.workflow.versions}
              </Button>
              <Button disabled={!canSave} onClick={() => edited && save.mutate(edited)}>
                {saveLabel}
              </Button>
            </>
          )}
          <Button look="main" icon="play" onClick={() => setOverlay("run")} disabled={workflow.is_refused}>
            {t.workflow.run}
          </Button>
        </div>
        {isFile && <p className="soft workflow-note">{t.workflow.file}</p>}
        {isConflict(save.error) ? (
          <Problem severity="warning">
            {t.workflow.conflict} <Button onClick={loadTheirs}>{t.workflow.loadTheirs}</Button>
          </Problem>
        ) : (
          save.error && <ErrorBox error={save.error} />
        )}
      </header>
      <Panes source={source} isReadOnly={isFile} judgement={judgement} onEdit={edit} />
      {overlay === "run" && (
        <RunDialog workflow={workflow} isUnsaved={isChanged} onClose={() => setOverlay(undefined)} />
      )}
      {overlay === "versions" && (
        <VersionsDialog
          workflow={workflow}
          source={source}
          onRestore={restore}
          onClose={() => setOverlay(undefined)}
        />
      )}
      {overlay === "snippets" && <SnippetsDialog workflow={workflow} onClose={() => setOverlay(undefined)} />}
      {overlay === "copy" && (
        <CopyDialog workflow={workflow.id} source={source} onClose={() => setOverlay(undefined)} />
      )}
    </div>
  );
}

function LastRuns({ workflow }: { workflow: string }) {
  const { data } = useQuery(runsQuery({ workflow, limit: 3 }));
  if (!data || data.items.length === 0) return null;
  return (
    <ul className="last-runs" aria-label={t.workflow.recent}>
      {data.items.map((run) => (
        <li key={run.run_id}>
          <Link to="/runs/$run" params={{ run: run.run_id }} title={formatAge(run.created_at)}>
            <StatusMark status={run.status as RunStatus} />
          </Link>
        </li>
      ))}
    </ul>
  );
}

type PanesProps = {
  source: Source;
  isReadOnly: boolean;
  judgement: Judgement;
  onEdit: (file: string, text: string) => void;
};

function Panes({ source, isReadOnly, judgement, onEdit }: PanesProps) {
  const search = useSearch({ from: "/workflows/$workflow" });
  const navigate = useNavigate({ from: "/workflows/$workflow" });
  const [file, setFile] = useState(source.entry);
  const [pane, setPane] = useState<Pane>("source");
  const [shown, setShown] = useState<Range>();
  const files = Object.keys(source.files).sort();
  const text = source.files[file] ?? "";
  const map = useMemo(() => new ByteMap(text), [text]);
  const { graph, problems } = judgement;
  const isEntry = file === source.entry;
  const diagnostics = useMemo(() => toDiagnostics(problems, isEntry, map), [problems, isEntry, map]);
  const marked = useMemo(() => nodesWithProblem(graph, problems), [graph, problems]);
  const selected = graph?.nodes.findIndex((node) => node.path === search.step);
  const select = (node: number | undefined) => {
    const chosen = node === undefined ? undefined : graph?.nodes[node];
    void navigate({ search: chosen ? { step: chosen.path } : {}, replace: true });
    if (chosen?.start == null || !isEntry) return;
    setShown({ from: map.toUnit(chosen.start), to: map.toUnit(chosen.start + (chosen.length ?? 0)) });
  };
  const followCursor = (unit: number) => {
    if (!graph || !isEntry) return;
    const byte = map.toByte(unit);
    const path = graph.nodes[smallestAround(graph, byte)]?.path;
    if (path !== search.step) void navigate({ search: path ? { step: path } : {}, replace: true });
  };
  return (
    <>
      <div className="run-panes-tabs">
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
      <div className="workflow-panes" data-pane={pane}>
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
              onChange={(changed) => changed !== text && onEdit(file, changed)}
              onMove={followCursor}
            />
          </Suspense>
          <ProblemList
            judgement={judgement}
            onOpen={(problem) => {
              if (problem.start == null) return;
              const from = map.toUnit(problem.start);
              setShown({ from, to: map.toUnit(problem.start + (problem.length ?? 0)) });
            }}
          />
        </section>
        <section className="graph-pane" aria-label={t.workflow.graph}>
          {graph ? (
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

function toDiagnostics(problems: ServerProblem[], isEntry: boolean, map: ByteMap) {
  if (!isEntry) return [];
  return problems
    .filter((problem) => problem.start != null)
    .map((problem) => ({
      from: map.toUnit(problem.start ?? 0),
      to: map.toUnit((problem.start ?? 0) + (problem.length ?? 0)),
      severity: problem.severity === "warning" ? ("warning" as const) : ("error" as const),
      message: [`${problem.code ?? ""} ${problem.message}`, problem.help].filter(Boolean).join("\n"),
    }));
}

function nodesWithProblem(graph: Graph | undefined, problems: ServerProblem[]): ReadonlySet<number> {
  const errors = problems.filter((problem) => problem.severity !== "warning" && problem.start != null);
  return new Set(errors.map((problem) => (graph ? smallestAround(graph, problem.start ?? 0) : -1)));
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
