// The workflow page: source and graph side by side, linked in both directions, with the problems that the server
// reports.
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { callerQuery, useMay } from "../../api/caller";
import { ApiError, type Schemas } from "../../api/client";
import { workflowQuery } from "../../api/queries";
import { Pending, PendingScope, useHasPending } from "../../builder/pending";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { useCommands } from "../../ui/commands";
import { formatTime } from "../../ui/format";
import { KeepScope } from "../../ui/keep-scope";
import { useKeys } from "../../ui/keyboard";
import { LeaveGuard } from "../../ui/leave-guard";
import { ErrorBox } from "../../ui/problem";
import { useTitle } from "../../ui/title";
import { CopyDialog } from "./copy-dialog";
import { DeleteDialog } from "./delete-dialog";
import { ExportDialog } from "./export-dialog";
import { nameDraftPlace } from "./kept-draft";
import { MissingWorkflow } from "./missing-workflow";
import { Panes } from "./panes";
import { RunDialog, type UnsavedChanges } from "./run-dialog";
import { SaveProblem } from "./save-problem";
import { SnippetsDialog } from "./snippets";
import { TriggersDialog } from "./triggers-dialog";
import { type Source, useJudgement, useStoredSource } from "./use-draft";
import { areEqual, type Stored, useEdited } from "./use-edited";
import { useRecovery } from "./use-recovery";
import { useSave } from "./use-save";
import { VersionsDialog } from "./versions";
import { type Overlay, WorkflowHead } from "./workflow-head";
import "./workflow.css";

type Workflow = Schemas["WorkflowInfo"];

export function WorkflowPage() {
  const { workflow: id } = useParams({ from: "/workflows/$workflow" });
  const { data, error } = useQuery(workflowQuery(id));
  const stored = useStoredSource(id, data?.file != null);
  const caller = useQuery(callerQuery);
  const problem = error ?? stored.error ?? caller.error;
  const isMissing = problem instanceof ApiError && problem.status === 404;
  // A loaded workflow stays, whatever happens to the server or to the workflow: the user may be changing it.
  const isGone = isMissing && data?.file != null;
  if (data && stored.data && caller.data && !isGone) {
    const place = nameDraftPlace(caller.data, id);
    // Another user does not continue with what is on the screen.
    return (
      <OpenWorkflow key={place} place={place} workflow={data} stored={stored.data} isDeleted={isMissing} />
    );
  }
  if (isMissing) return <MissingWorkflow workflow={id} />;
  if (!problem) return <p className="page soft">{t.loading}</p>;
  return (
    <div className="page">
      <ErrorBox error={problem} />
    </div>
  );
}

/** The last action. It is shown as long as the editor shows the text that it is about. */
type Notice = { text: string; about: Source };

type OpenProps = {
  /** Where the viewer's changes are kept. */
  place: string;
  workflow: Workflow;
  stored: Stored;
  isDeleted: boolean;
};

function OpenWorkflow(props: OpenProps) {
  const { place, workflow, stored, isDeleted } = props;
  const navigate = useNavigate({ from: "/workflows/$workflow" });
  const open = useOpenWorkflow(props);
  const { edited, saving, recovery, judgement, pending, isReadOnly, notice, setNotice } = open;
  const { source } = edited;
  useWorkflowCommands(workflow, open);
  return (
    <div className="workflow">
      <WorkflowHead
        workflow={workflow}
        edited={edited}
        mayWrite={open.mayWrite}
        mayRun={open.mayRun}
        isUnkept={open.isUnkept}
        notice={notice && areEqual(notice.about, source) ? notice.text : undefined}
        saveLabel={judgement.isRefused ? t.workflow.saveRefused : t.workflow.save}
        canSave={open.canSave}
        onSave={open.save}
        onKeep={open.keep}
        hasChanges={edited.changed !== undefined || open.hasPending}
        onDiscard={open.discard}
        onOpen={open.openOverlay}
      >
        <SaveProblem
          error={saving.error}
          failure={saving.failure}
          isDeleted={isDeleted}
          mine={source}
          theirs={stored.source}
          onTakeTheirs={() => {
            saving.takeTheirs();
            setNotice({ text: t.workflow.theirsTaken, about: stored.source });
          }}
          onSaveOver={saving.saveOver}
        />
      </WorkflowHead>
      <RecoveryNote recovery={recovery} />
      <LeaveGuard isUnsaved={open.isUnkept} onKeep={saving.keep} onLeave={recovery.forget} />
      <PendingScope value={pending}>
        <KeepScope value={saving.keep}>
          <Panes
            workflow={workflow}
            source={source}
            isReadOnly={isReadOnly}
            unsaved={open.unsaved}
            judgement={judgement}
            onEdit={edited.edit}
          />
        </KeepScope>
      </PendingScope>
      {open.overlay && (
        <OpenOverlay
          overlay={open.overlay}
          place={place}
          workflow={workflow}
          source={source}
          stored={stored.source}
          unsaved={open.unsaved}
          onStep={(step) => void navigate({ search: (before) => ({ ...before, step }), replace: true })}
          onRestore={(version, number) => {
            edited.replace(version);
            setNotice({ text: t.workflow.restored(number), about: version });
          }}
          onClose={open.closeOverlay}
        />
      )}
    </div>
  );
}

/** The changes, the stored state and the messages of a workflow that is open. */
function useOpenWorkflow({ place, workflow, stored, isDeleted }: OpenProps) {
  const mayWrite = useMay("write");
  const mayRun = useMay("run");
  const isReadOnly = workflow.file != null || !mayWrite;
  useTitle(workflow.name || workflow.id);
  const edited = useEdited(place, stored, isReadOnly);
  const recovery = useRecovery(place, edited, stored, isReadOnly);
  const judgement = useJudgement(edited.source);
  const [overlay, setOverlay] = useState<Overlay>();
  const [notice, setNotice] = useState<Notice>();
  const [pending] = useState(() => new Pending());
  const hasPending = useHasPending(pending);
  const onSaved = (saved: Source) => setNotice({ text: t.workflow.saved, about: saved });
  const saving = useSave({ workflow: workflow.id, edited, stored, isDeleted, pending, onSaved });
  const isUnsaved = edited.changed !== undefined || hasPending;
  const unsaved = isUnsaved
    ? { isRefused: judgement.isRefused, save: saving.save, keep: saving.keep }
    : undefined;
  const canSave = (isUnsaved || isDeleted) && !isReadOnly && !saving.isPending;
  return {
    mayWrite,
    mayRun,
    isReadOnly,
    edited,
    recovery,
    judgement,
    pending,
    saving,
    unsaved,
    canSave,
    isUnkept: edited.isUnkept || hasPending,
    hasPending,
    notice,
    setNotice,
    overlay,
    // Dialogs over the page show the current entries.
    openOverlay: (name: Overlay) => void pending.settle().then(() => setOverlay(name)),
    closeOverlay: () => setOverlay(undefined),
    save: () => {
      if (canSave) void saving.save();
    },
    keep: () => void saving.keep(),
    discard: async () => {
      await pending.settle();
      pending.discard();
      edited.discard();
    },
  };
}

/** The keys of an open workflow, and its commands in the search. */
function useWorkflowCommands(workflow: Workflow, opened: ReturnType<typeof useOpenWorkflow>) {
  const { mayWrite, mayRun, isReadOnly, isUnkept, canSave, overlay, openOverlay, save, keep } = opened;
  const isFile = workflow.file != null;
  const navigate = useNavigate();
  const openTests = () => void navigate({ to: "/tests", search: { workflow: workflow.id } });
  useKeys((event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    if (event.key === "s") {
      event.preventDefault();
      save();
    } else if (event.key === "Enter" && overlay === undefined) {
      event.preventDefault();
      openOverlay("run");
    }
  });
  const open = (name: Overlay) => () => openOverlay(name);
  useCommands([
    !workflow.is_refused && mayRun && { title: t.workflow.run, icon: "play", run: open("run") },
    canSave && { title: t.workflow.save, icon: "check", run: save },
    isUnkept && { title: t.workflow.keepDraft, icon: "copy", run: keep },
    mayWrite && { title: t.build.triggers, icon: "clock", run: open("triggers") },
    { title: t.build.exportTitle, icon: "copy", run: open("export") },
    { title: t.workflow.use, icon: "code", run: open("snippets") },
    { title: t.workflow.openTests, icon: "tests", run: openTests },
    isFile && mayWrite && { title: t.workflow.copy, icon: "copy", run: open("copy") },
    !isFile && { title: t.workflow.versions, icon: "swap", run: open("versions") },
    !isReadOnly && { title: t.workflow.deleteWorkflow, icon: "trash", run: open("delete") },
  ]);
}

/** Offers the changes that were not saved when the tab ended. */
function RecoveryNote({ recovery }: { recovery: ReturnType<typeof useRecovery> }) {
  if (recovery.at === undefined) return null;
  return (
    <div className="workflow-recovery" role="status">
      <span>{t.workflow.recovered(formatTime(recovery.at))}</span>
      <Button onClick={recovery.restore}>{t.workflow.recover}</Button>
      <Button look="quiet" onClick={recovery.dismiss}>
        {t.workflow.dismissRecovery}
      </Button>
    </div>
  );
}

type OverlayProps = {
  overlay: Overlay;
  place: string;
  workflow: Workflow;
  source: Source;
  stored: Source;
  unsaved: UnsavedChanges | undefined;
  onStep: (step: string) => void;
  onRestore: (version: Source, number: number) => void;
  onClose: () => void;
};

function OpenOverlay(props: OverlayProps) {
  const { overlay, place, workflow, source, stored, unsaved, onStep, onRestore, onClose } = props;
  const { id, format } = workflow;
  switch (overlay) {
    case "run": {
      const showStep = (step: string) => {
        onClose();
        onStep(step);
      };
      return <RunDialog workflow={workflow} unsaved={unsaved} onStep={showStep} onClose={onClose} />;
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
      return <TriggersDialog workflow={workflow} onClose={onClose} />;
    case "copy":
      return <CopyDialog workflow={id} source={source} onClose={onClose} />;
    case "delete":
      return (
        <DeleteDialog
          workflow={id}
          place={place}
          name={workflow.name || id}
          stored={stored}
          onClose={onClose}
        />
      );
  }
}
