// A text that an editor shows, and that is also changed outside of it.
import type { EditorView } from "@codemirror/view";
import { type RefObject, useEffect, useRef } from "react";
import { replaceText } from "./history";

/**
 * Shows `text` in an editor. The page receives typed text a moment later, so the text that it renders may be older than
 * that of the editor; such a text is not shown. Returns the function to call before the page is notified of a change.
 */
export function useOuterText(view: RefObject<EditorView | undefined>, text: string): () => void {
  const told = useRef(0);
  const toldAtRender = told.current;
  useEffect(() => {
    if (view.current && toldAtRender === told.current) replaceText(view.current, text);
  }, [view, text, toldAtRender]);
  return () => {
    told.current += 1;
  };
}
