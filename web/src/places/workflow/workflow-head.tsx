// The header of a workflow: what it is, whether it has changed, its last runs, and what can be done with it.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Schemas } from "../../api/client";
import { runsQuery } from "../../api/queries";
import { t } from "../../strings";
import { Button, IconButton } from "../../ui/button";
import { formatTime } from "../../ui/format";
import { RunHistory } from "../../ui/run-history";
import { testsOf } from "../tests/of-workflow";
import { testsQuery } from "../tests/results";
import type { Edited } from "./use-edited";

/** So many of the last runs are shown. */
const LAST_RUNS = 10;

/** What opens over the page. */
export type Overlay = "run" | "versions" | "snippets" | "copy" | "export" | "triggers" | "delete";

/** The number of the version in the tag of a stored source. */
export function versionOf(tag: string | null): number | undefined {
  const found = /-(\d+)"$/.exec(tag ?? "")?.[1];
  return found === undefined ? undefined : Number(found);
}

type HeadProps = {
  workflow: Schemas["WorkflowInfo"];
  edited: Edited;
  /** What the key of this tab permits. */
  mayWrite: boolean;
  mayRun: boolean;
  /** Whether there are changes that can be discarded, also those that are being entered. */
  hasChanges: boolean;
  /** Whether leaving loses changes, also those that are being entered. */
  isUnkept: boolean;
  notice: string | undefined;
  saveLabel: string;
  canSave: boolean;
  onSave: () => void;
  onKeep: () => void;
  onDiscard: () => void;
  onOpen: (overlay: Overlay) => void;
  children: ReactNode;
};

export function WorkflowHead(props: HeadProps) {
  const { workflow, edited, mayWrite, mayRun, hasChanges, isUnkept, notice, saveLabel, canSave, children } =
    props;
  const { onSave, onKeep, onDiscard, onOpen } = props;
  const isFile = workflow.file != null;
  const version = workflow.version != null ? (versionOf(edited.tag) ?? workflow.version) : undefined;
  const { draftAt } = edited;
  const state = isUnkept ? t.workflow.unsaved : draftAt ? t.workflow.draftOf(formatTime(draftAt)) : notice;
  return (
    <header className="workflow-head">
      <div className="run-title">
        <h1 className="cut">{workflow.name || workflow.id}</h1>
        <span className="badge">{t.format(workflow.format)}</span>
        {version != null && <span className="badge">{t.workflow.version(version)}</span>}
        <span className="soft cut" aria-live="polite">
          {state}
        </span>
        {hasChanges && <IconButton icon="close" label={t.workflow.discard} onClick={onDiscard} />}
      </div>
      <LastRuns workflow={workflow.id} />
      <div className="workflow-actions">
        {mayWrite && (
          <Button look="quiet" onClick={() => onOpen("triggers")}>
            {t.build.triggers}
          </Button>
        )}
        <TestsLink workflow={workflow} />
        <Button look="quiet" onClick={() => onOpen("export")}>
          {t.build.exportTitle}
        </Button>
        <Button look="quiet" onClick={() => onOpen("snippets")}>
          {t.workflow.use}
        </Button>
        {isFile && mayWrite && (
          <Button look="quiet" onClick={() => onOpen("copy")}>
            {t.workflow.copy}
          </Button>
        )}
        {!isFile && (
          <Button look="quiet" onClick={() => onOpen("versions")}>
            {t.workflow.versions}
          </Button>
        )}
        {!isFile && mayWrite && (
          <>
            <IconButton icon="trash" label={t.workflow.deleteWorkflow} onClick={() => onOpen("delete")} />
            {/* It is always there, so that nothing moves when somebody begins to type. */}
            <Button title={t.workflow.keepDraftHelp} disabled={!isUnkept} onClick={onKeep}>
              {t.workflow.keepDraft}
            </Button>
            <Button disabled={!canSave} onClick={onSave}>
              {saveLabel}
            </Button>
          </>
        )}
        <Button
          look="main"
          icon="play"
          onClick={() => onOpen("run")}
          disabled={workflow.is_refused || !mayRun}
        >
          {t.workflow.run}
        </Button>
      </div>
      <Notes isFile={isFile} mayWrite={mayWrite} mayRun={mayRun} />
      {children}
    </header>
  );
}

/** What is not possible here. */
function Notes({ isFile, mayWrite, mayRun }: { isFile: boolean; mayWrite: boolean; mayRun: boolean }) {
  return (
    <>
      {isFile && <p className="soft workflow-note">{t.workflow.file}</p>}
      {!mayWrite && <p className="soft workflow-note">{t.key.noWrite}</p>}
      {!mayRun && <p className="soft workflow-note">{t.key.noRun}</p>}
    </>
  );
}

/** Leads to the tests of the workflow, with their number. */
function TestsLink({ workflow }: { workflow: Schemas["WorkflowInfo"] }) {
  const { data } = useQuery(testsQuery);
  const count = testsOf(data ?? [], workflow).length;
  return (
    <Link to="/tests" search={{ workflow: workflow.id }} className="button" data-look="quiet">
      {t.workflow.tests(count)}
    </Link>
  );
}

function LastRuns({ workflow }: { workflow: string }) {
  const { data } = useQuery(runsQuery({ workflow, limit: LAST_RUNS }));
  return <RunHistory runs={data?.items ?? []} />;
}
