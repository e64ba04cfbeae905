// Someone else stored another version of what the viewer has changed: both texts are compared before one is chosen.
import { useState } from "react";
import { t } from "../strings";
import { Button } from "./button";
import { Dialog } from "./dialog";
import { DiffView } from "./diff-view";
import { Problem } from "./problem";

type ConflictProps = {
  mine: string;
  theirs: string;
  onTakeTheirs: () => void;
  onSaveOver: () => void;
};

export function Conflict({ mine, theirs, onTakeTheirs, onSaveOver }: ConflictProps) {
  const [isComparing, setIsComparing] = useState(false);
  const close = () => setIsComparing(false);
  const choose = (act: () => void) => () => {
    close();
    act();
  };
  return (
    <Problem severity="warning">
      {t.conflict.problem} <Button onClick={() => setIsComparing(true)}>{t.conflict.compare}</Button>
      {isComparing && (
        <Dialog label={t.conflict.title} onClose={close} className="versions">
          <div className="dialog-body">
            <h2>{t.conflict.title}</h2>
            <p className="soft">{t.conflict.help}</p>
            <DiffView before={theirs} after={mine} />
            <div className="dialog-actions">
              <Button onClick={close}>{t.close}</Button>
              <Button onClick={choose(onTakeTheirs)}>{t.conflict.takeTheirs}</Button>
              <Button look="main" onClick={choose(onSaveOver)}>
                {t.conflict.saveOver}
              </Button>
            </div>
          </div>
        </Dialog>
      )}
    </Problem>
  );
}
