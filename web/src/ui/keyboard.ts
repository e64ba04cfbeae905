// Keyboard shortcuts.
import { type RefObject, useEffect, useRef } from "react";

/** Whether a key press is meant for the element with the focus: something is typed or chosen there. */
export function isTyping(event: KeyboardEvent): boolean {
  const target = event.composedPath()[0];
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || isInDialog();
}

/** Whether a text is written in the element with the focus, so that undo and redo are its own. */
export function isWriting(event: KeyboardEvent): boolean {
  if (!isTyping(event)) return false;
  const target = event.composedPath()[0];
  const isChosen = target instanceof HTMLInputElement && /^(checkbox|radio)$/.test(target.type);
  return isInDialog() || !(isChosen || target instanceof HTMLSelectElement);
}

function isInDialog(): boolean {
  return document.querySelector("dialog[open]") !== null;
}

/** Calls `onKey` for every key press of the window, or of a part of it, while the component is shown. */
export function useKeys(onKey: (event: KeyboardEvent) => void, within?: RefObject<HTMLElement | null>): void {
  const latest = useRef(onKey);
  latest.current = onKey;
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      const isMeant = !within || (event.target instanceof Node && within.current?.contains(event.target));
      if (isMeant) latest.current(event);
    };
    window.addEventListener("keydown", listen);
    return () => window.removeEventListener("keydown", listen);
  }, [within]);
}
