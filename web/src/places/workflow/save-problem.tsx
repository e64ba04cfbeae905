// What is in the way of saving: someone else saved or deleted the workflow, or something failed.
import { useState } from "react";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { DiffView } from "../../ui/diff-view";
import { ErrorBox, Problem } from "../../ui/problem";
import { isConflict, type Source, toReadable } from "./use-draft";

type SaveProblemProps = {
  error: Error | null;
  failure: string | undefined;
  isDeleted: boolean;
  mine: Source;
  theirs: Source;
  onTakeTheirs: () => void;
  onSaveOver: () => void;
};

export function SaveProblem(props: SaveProblemProps) {
  const { error, failure, isDeleted, mine, theirs, onTakeTheirs, onSaveOver } = props;
  const [isComparing, setIsComparing] = useState(false);
  if (isDeleted) return <Problem severity="warning">{t.workflow.deletedElsewhere}</Problem>;
  if (failure !== undefined) return <Problem severity="warning">{failure}</Problem>;
  if (!isConflict(error)) return error && <ErrorBox error={error} />;
  const close = () => setIsComparing(false);
  return (
    <Problem severity="warning">
      {t.workflow.conflict} <Button onClick={() => setIsComparing(true)}>{t.workflow.compareTheirs}</Button>
      {isComparing && (
        <Dialog label={t.workflow.conflictTitle} onClose={close} className="versions">
          <div className="dialog-body">
            <h2>{t.workflow.conflictTitle}</h2>
            <p className="soft">{t.workflow.conflictHelp}</p>
            <DiffView before={toReadable(theirs)} after={toReadable(mine)} />
            <div className="dialog-actions">
              <Button onClick={close}>{t.close}</Button>
              <Button
                onClick={() => {
                  close();
                  onTakeTheirs();
                }}
              >
                {t.workflow.takeTheirs}
              </Button>
              <Button
                look="main"
                onClick={() => {
                  close();
                  onSaveOver();
                }}
              >
                {t.workflow.saveOver}
              </Button>
            </div>
          </div>
        </Dialog>
      )}
    </Problem>
  );
}
