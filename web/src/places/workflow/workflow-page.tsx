// The workflow page: source and graph side by side, linked in both directions, with what the server says about them.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { useCallback, useState } from "react";
import { ApiError, type Schemas } from "../../api/client";
import { workflowQuery } from "../../api/queries";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { useCommands } from "../../ui/commands";
import { useKeys } from "../../ui/keyboard";
import { LeaveGuard } from "../../ui/leave-guard";
import { EmptyPlace, ErrorBox, Problem } from "../../ui/problem";
import { useTitle } from "../../ui/title";
import { CopyDialog } from "./copy-dialog";
import { DeleteDialog } from "./delete-dialog";
import { ExportDialog } from "./export-dialog";
import { Panes } from "./panes";
import { RunDialog } from "./run-dialog";
import { SnippetsDialog } from "./snippets";
import { TriggersDialog } from "./triggers-dialog";
import { isConflict, type Source, saveSource, useJudgement, useStoredSource } from "./use-draft";
import { useEdited } from "./use-edited";
import { VersionsDialog } from "./versions";
import { type Overlay, WorkflowHead } from "./workflow-head";
import "./workflow.css";

type Workflow = Schemas["WorkflowInfo"];

export function WorkflowPage() {
  const { workflow: id } = useParams({ from: "/workflows/$workflow" });
  const { data, error } = useQuery(workflowQuery(id));
  const stored = useStoredSource(id, data?.file != null);
  const problem = error ?? stored.error;
  if (problem instanceof ApiError && problem.status === 404) {
    return <EmptyPlace title={t.errors.notFound}>{t.workflow.notFound}</EmptyPlace>;
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

type StoredSource = { source: Source; tag: string | null };

function OpenWorkflow({ workflow, stored }: { workflow: Workflow; stored: StoredSource }) {
  const queries = useQueryClient();
  const navigate = useNavigate({ from: "/workflows/$workflow" });
  const isFile = workflow.file != null;
  useTitle(workflow.name || workflow.id);
  const edited = useEdited(workflow.id, stored, isFile);
  const { source, changed } = edited;
  const judgement = useJudgement(source);
  const [overlay, setOverlay] = useState<Overlay>();
  const [notice, setNotice] = useState<string>();
  const { edit: change } = edited;
  const edit = useCallback(
    (file: string, text: string) => {
      setNotice(undefined);
      change(file, text);
    },
    [change],
  );
  const save = useMutation({
    mutationFn: (draft: StoredSource) => saveSource(workflow.id, draft.source, { tag: draft.tag }),
    onSuccess: (tag, draft) => {
      // What is stored counts as stored at once, not only when it has been read again.
      queries.setQueryData<StoredSource>(["workflows", workflow.id, "source"], { source: draft.source, tag });
      edited.finishSave(draft, tag);
      setNotice(t.workflow.saved);
      void queries.invalidateQueries({ queryKey: ["workflows"] });
    },
  });
  const canSave = changed !== undefined && !isFile && !save.isPending;
  const store = () => canSave && changed && save.mutate(changed);
  useKeys((event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    if (event.key === "s") {
      event.preventDefault();
      store();
    } else if (event.key === "Enter" && overlay === undefined) {
      event.preventDefault();
      setOverlay("run");
    }
  });
  const keep = () => {
    const isKept = edited.keep();
    if (!isKept) setNotice(t.workflow.noRoom);
    return isKept;
  };
  const open = (name: Overlay) => () => setOverlay(name);
  useCommands([
    !workflow.is_refused && { title: t.workflow.run, icon: "play", run: open("run") },
    canSave && { title: t.workflow.save, icon: "check", run: store },
    edited.isUnkept && { title: t.workflow.keepDraft, icon: "copy", run: keep },
    { title: t.build.triggers, icon: "clock", run: open("triggers") },
    { title: t.build.exportTitle, icon: "copy", run: open("export") },
    { title: t.workflow.use, icon: "code", run: open("snippets") },
    isFile && { title: t.workflow.copy, icon: "copy", run: open("copy") },
    !isFile && { title: t.workflow.versions, icon: "swap", run: open("versions") },
    !isFile && { title: t.workflow.deleteWorkflow, icon: "trash", run: open("delete") },
  ]);
  const loadTheirs = () => {
    save.reset();
    edited.discard();
    void queries.invalidateQueries({ queryKey: ["workflows", workflow.id] });
  };
  return (
    <div className="workflow">
      <WorkflowHead
        workflow={workflow}
        edited={edited}
        notice={notice}
        saveLabel={judgement.isRefused ? t.workflow.saveRefused : t.workflow.save}
        canSave={canSave}
        onSave={store}
        onKeep={keep}
        onOpen={setOverlay}
      >
        {isConflict(save.error) ? (
          <Problem severity="warning">
            {t.workflow.conflict} <Button onClick={loadTheirs}>{t.workflow.loadTheirs}</Button>
          </Problem>
        ) : (
          save.error && <ErrorBox error={save.error} />
        )}
      </WorkflowHead>
      <LeaveGuard isUnsaved={edited.isUnkept} onKeep={keep} />
      <Panes
        workflow={workflow}
        source={source}
        isReadOnly={isFile}
        isUnsaved={changed !== undefined}
        judgement={judgement}
        onEdit={edit}
      />
      {overlay && (
        <OpenOverlay
          overlay={overlay}
          workflow={workflow}
          source={source}
          isUnsaved={changed !== undefined}
          onStep={(step) => void navigate({ search: { step }, replace: true })}
          onRestore={(version, number) => {
            edited.replace(version);
            setNotice(t.workflow.restored(number));
          }}
          onClose={() => setOverlay(undefined)}
        />
      )}
    </div>
  );
}

type OverlayProps = {
  overlay: Overlay;
  workflow: Workflow;
  source: Source;
  isUnsaved: boolean;
  onStep: (step: string) => void;
  onRestore: (version: Source, number: number) => void;
  onClose: () => void;
};

function OpenOverlay({ overlay, workflow, source, isUnsaved, onStep, onRestore, onClose }: OverlayProps) {
  const { id, format } = workflow;
  switch (overlay) {
    case "run": {
      const showStep = (step: string) => {
        onClose();
        onStep(step);
      };
      return <RunDialog workflow={workflow} isUnsaved={isUnsaved} onStep={showStep} onClose={onClose} />;
    }
    case "versions": {
      const restore = (version: Source, number: number) => {
        onClose();
        onRestore(version, number);
      };
      return <VersionsDialog workflow={workflow} source={source} onRestore={restore} onClose={onClose} />;
    }
    case "snippets":
      return <SnippetsDialog workflow={workflow} onClose={onClose} />;
    case "export":
      return <ExportDialog workflow={id} format={format} source={source} onClose={onClose} />;
    case "triggers":
      return <TriggersDialog workflow={id} onClose={onClose} />;
    case "copy":
      return <CopyDialog workflow={id} source={source} onClose={onClose} />;
    case "delete":
      return <DeleteDialog workflow={id} onClose={onClose} />;
  }
}
