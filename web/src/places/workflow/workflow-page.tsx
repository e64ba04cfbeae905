// The workflow page: source and graph side by side, linked in both directions, with what the server says about them.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { useCallback, useState } from "react";
import { ApiError, type Schemas } from "../../api/client";
import { runsQuery, workflowQuery } from "../../api/queries";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { useKeys } from "../../ui/keyboard";
import { Empty, ErrorBox, Problem } from "../../ui/problem";
import { RunHistory } from "../../ui/run-history";
import { CopyDialog } from "./copy-dialog";
import { ExportDialog } from "./export-dialog";
import { Panes } from "./panes";
import { RunDialog } from "./run-dialog";
import { SnippetsDialog } from "./snippets";
import { TriggersDialog } from "./triggers-dialog";
import { isConflict, type Source, saveSource, useJudgement, useStoredSource } from "./use-draft";
import { VersionsDialog } from "./versions";
import "./workflow.css";

/** So many of the last runs are shown. */
const LAST_RUNS = 10;

type Workflow = Schemas["WorkflowInfo"];
type Overlay = "run" | "versions" | "snippets" | "copy" | "export" | "triggers" | undefined;

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
  const navigate = useNavigate({ from: "/workflows/$workflow" });
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
          <Button look="quiet" onClick={() => setOverlay("triggers")}>
            {t.build.triggers}
          </Button>
          <Button look="quiet" onClick={() => setOverlay("export")}>
            {t.build.exportTitle}
          </Button>
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
      <Panes
        workflow={workflow}
        source={source}
        isReadOnly={isFile}
        isUnsaved={isChanged}
        judgement={judgement}
        onEdit={edit}
      />
      {overlay === "run" && (
        <RunDialog
          workflow={workflow}
          isUnsaved={isChanged}
          onStep={(step) => {
            setOverlay(undefined);
            void navigate({ search: { step }, replace: true });
          }}
          onClose={() => setOverlay(undefined)}
        />
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
      {overlay === "export" && (
        <ExportDialog
          workflow={workflow.id}
          format={workflow.format}
          source={source}
          onClose={() => setOverlay(undefined)}
        />
      )}
      {overlay === "triggers" && (
        <TriggersDialog workflow={workflow.id} onClose={() => setOverlay(undefined)} />
      )}
      {overlay === "copy" && (
        <CopyDialog workflow={workflow.id} source={source} onClose={() => setOverlay(undefined)} />
      )}
    </div>
  );
}

function LastRuns({ workflow }: { workflow: string }) {
  const { data } = useQuery(runsQuery({ workflow, limit: LAST_RUNS }));
  return <RunHistory runs={data?.items ?? []} />;
}
