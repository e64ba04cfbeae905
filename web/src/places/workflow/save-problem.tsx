// The reason why saving is not possible: another user saved or deleted the workflow, or something failed.
import { t } from "../../strings";
import { Conflict } from "../../ui/conflict";
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
  if (isDeleted) return <Problem severity="warning">{t.conflict.deleted}</Problem>;
  if (failure !== undefined) return <Problem severity="warning">{failure}</Problem>;
  if (!isConflict(error)) return error && <ErrorBox error={error} />;
  return (
    <Conflict
      mine={toReadable(mine)}
      theirs={toReadable(theirs)}
      onTakeTheirs={onTakeTheirs}
      onSaveOver={onSaveOver}
    />
  );
}
