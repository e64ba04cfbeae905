// The history of the editor is that of the forms, too: every change of the text is in it.
import { history, isolateHistory, redo, redoDepth, undo, undoDepth } from "@codemirror/commands";
import { Annotation, type EditorState } from "@codemirror/state";
import type { EditorView, ViewUpdate } from "@codemirror/view";

/** The history of an editor. It has no end: CodeMirror's own keeps the last 100 changes. */
export const endlessHistory = history({ minDepth: Number.POSITIVE_INFINITY });

/** What the page can do with the history of the editor. */
export type History = { undo: () => void; redo: () => void };
export type Depths = { canUndo: boolean; canRedo: boolean };

export function historyOf(view: EditorView): History {
  return { undo: () => undo(view), redo: () => redo(view) };
}

export function depthsOf(state: EditorState): Depths {
  return { canUndo: undoDepth(state) > 0, canRedo: redoDepth(state) > 0 };
}

/** Marks the changes by which the page shows a text that it has already. */
const isReplacement = Annotation.define<boolean>();

/** Whether the page does not know the text of the editor yet: after typing, or after an undo. */
export function isNewText(update: ViewUpdate): boolean {
  const changes = update.transactions.filter((one) => one.docChanged);
  return changes.some((one) => !one.annotation(isReplacement));
}

/** Replaces what differs between the text of the editor and a new text, as one step of the history. */
export function replaceText(view: EditorView, text: string): void {
  const old = view.state.doc.toString();
  if (old === text) return;
  let from = 0;
  const most = Math.min(old.length, text.length);
  while (from < most && old[from] === text[from]) from += 1;
  let tail = 0;
  while (tail < most - from && old[old.length - 1 - tail] === text[text.length - 1 - tail]) tail += 1;
  const changes = { from, to: old.length - tail, insert: text.slice(from, text.length - tail) };
  view.dispatch({ changes, annotations: [isolateHistory.of("full"), isReplacement.of(true)] });
}
