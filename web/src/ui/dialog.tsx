// Dialogs with the browser's own element: it keeps the focus inside, closes with Escape and needs no library.
import { type ReactNode, useEffect, useRef } from "react";
import { t } from "../strings";
import { Button } from "./button";

type DialogProps = {
  label: string;
  onClose: () => void;
  className?: string;
  children: ReactNode;
};

export function Dialog({ label, onClose, className = "", children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const beganOutside = useRef(false);
  useEffect(() => {
    const dialog = element.current;
    if (!dialog || dialog.open) return;
    dialog.showModal();
    // The focus goes to the first control, which can be at the end of a long text.
    dialog.scrollTop = 0;
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes it, too; a click outside of it is a convenience.
    <dialog
      ref={element}
      className={`dialog ${className}`}
      aria-label={label}
      onClose={onClose}
      // A selection that begins inside and ends outside is a click on the dialog, too.
      onPointerDown={(event) => {
        beganOutside.current = event.target === element.current;
      }}
      onClick={(event) => event.target === element.current && beganOutside.current && onClose()}
    >
      {children}
    </dialog>
  );
}

type ConfirmProps = {
  title: string;
  help: string;
  confirm: string;
  keep?: string;
  /** Whether nothing is lost by it. */
  isHarmless?: boolean;
  onConfirm: () => void;
  onClose: () => void;
};

/** Asks before an action that cannot be undone, or that costs something. */
export function ConfirmDialog(props: ConfirmProps) {
  const { title, help, confirm, keep = t.cancel, isHarmless = false, onConfirm, onClose } = props;
  return (
    <Dialog label={title} onClose={onClose}>
      <div className="dialog-body">
        <h2>{title}</h2>
        <p className="soft">{help}</p>
        <div className="dialog-actions">
          <Button onClick={onClose}>{keep}</Button>
          <Button
            look={isHarmless ? "main" : "danger"}
            onClick={() => {
              onConfirm();
              onClose();
            }}
          >
            {confirm}
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
