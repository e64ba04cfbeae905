// Asks before a place with unsaved changes is left: by a link, a key, the browser's buttons, or by closing the tab.
import { useBlocker } from "@tanstack/react-router";
import { t } from "../strings";
import { Button } from "./button";
import { Dialog } from "./dialog";

function areEqual(one: object, other: object): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

type LeaveGuardProps = {
  /** Whether leaving loses changes. */
  isUnsaved: boolean;
  /** Whether the changes belong to the selected item, so that another selection in the same place loses them. */
  isOfSelection?: boolean;
  /** Keeps the changes, so that nothing is lost; false if that was not possible. */
  onKeep?: () => Promise<boolean>;
  /** Called before the changes are lost. */
  onLeave?: () => void;
};

export function LeaveGuard({ isUnsaved, isOfSelection = false, onKeep, onLeave }: LeaveGuardProps) {
  const blocker = useBlocker({
    // Another selection in the same place loses nothing.
    shouldBlockFn: ({ current, next }) => {
      const isSame =
        current.pathname === next.pathname && (!isOfSelection || areEqual(current.search, next.search));
      return isUnsaved && !isSame;
    },
    enableBeforeUnload: isUnsaved,
    withResolver: true,
  });
  if (blocker.status !== "blocked") return null;
  return (
    <Dialog label={t.leave.title} onClose={blocker.reset}>
      <div className="dialog-body">
        <h2>{t.leave.title}</h2>
        <p className="soft">{t.leave.help}</p>
        <div className="dialog-actions">
          <Button onClick={blocker.reset}>{t.leave.stay}</Button>
          {onKeep && (
            <Button
              onClick={() => void onKeep().then((isKept) => (isKept ? blocker.proceed() : blocker.reset()))}
            >
              {t.workflow.keepDraft}
            </Button>
          )}
          <Button
            look="danger"
            onClick={() => {
              onLeave?.();
              blocker.proceed();
            }}
          >
            {t.leave.leave}
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
