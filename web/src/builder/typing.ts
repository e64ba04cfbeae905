// Typing over a selection. Left to itself, the browser keeps the look of the replaced text with a style attribute, which
// the content security policy refuses.
import { EditorView } from "@codemirror/view";

/** Replaces the selection with the typed text, as the editor does after the browser has changed its content. */
export const typeOverSelection = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { state } = view;
    const { main } = state.selection;
    const text = event.data;
    const isPlain = event.inputType === "insertText" && !event.isComposing && !view.composing;
    if (!isPlain || !text || state.readOnly || main.empty) return false;
    event.preventDefault();
    const insert = () =>
      state.update(state.replaceSelection(text), { userEvent: "input.type", scrollIntoView: true });
    // Brackets around a selection, for example, are the matter of a handler.
    const handlers = state.facet(EditorView.inputHandler);
    if (!handlers.some((handle) => handle(view, main.from, main.to, text, insert))) view.dispatch(insert());
    return true;
  },
});
