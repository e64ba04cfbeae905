// The arrow keys that select a row of the steps.
import { type RefObject, useEffect, useRef } from "react";
import type { VisibleRow } from "../../run/rows";
import { isTyping, useKeys } from "../../ui/keyboard";

/** Selects the row above or below with the arrow keys: everywhere, or within a part of the page. */
export function useSelectionKeys(
  rows: readonly VisibleRow[],
  selected: string | undefined,
  onSelect: (path: string) => void,
  within?: RefObject<HTMLElement | null>,
): void {
  // The address holds the selection. Keys that are pressed before it has changed continue from the row chosen last.
  const chosen = useRef(selected);
  useEffect(() => {
    chosen.current = selected;
  }, [selected]);
  useKeys((event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (isTyping(event) || step === undefined || event.ctrlKey || event.metaKey) return;
    if (event.target instanceof Element && event.target.closest(".details, .react-flow")) return;
    event.preventDefault();
    const place = rows.findIndex(({ row }) => row.path === chosen.current);
    const next = rows[place < 0 ? 0 : Math.max(0, Math.min(rows.length - 1, place + step))];
    if (!next) return;
    chosen.current = next.row.path;
    onSelect(next.row.path);
  }, within);
}
