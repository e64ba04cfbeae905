// The editor of a source. It lives in a shadow root: its styles are then style sheets of the script, which the content
// security policy of the page permits without inline styles.
import { autocompletion, closeBrackets } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { markdown } from "@codemirror/lang-markdown";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, foldGutter, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import { EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "react";
import { t } from "../../strings";

/** A part of the text, in UTF-16 units. */
export type Range = { from: number; to: number };

type EditorProps = {
  file: string;
  text: string;
  isReadOnly: boolean;
  diagnostics: Diagnostic[];
  /** The part that is scrolled to and selected. */
  shown: Range | undefined;
  onChange: (text: string) => void;
  onMove: (unit: number) => void;
};

export default function Editor(props: EditorProps) {
  const { file, text, isReadOnly, diagnostics, shown } = props;
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | undefined>(undefined);
  const latest = useRef(props);
  latest.current = props;
  // biome-ignore lint/correctness/useExhaustiveDependencies: later changes of the text are applied below.
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    const listener = EditorView.updateListener.of((update) => {
      if (update.docChanged) latest.current.onChange(update.state.doc.toString());
      if (update.selectionSet && update.view.hasFocus)
        latest.current.onMove(update.state.selection.main.head);
    });
    const state = EditorState.create({
      doc: text,
      extensions: [...extensionsFor(file, isReadOnly), listener],
    });
    const editor = new EditorView({ state, parent: root, root });
    view.current = editor;
    return () => {
      editor.destroy();
      view.current = undefined;
    };
  }, [file, isReadOnly]);
  useEffect(() => {
    const editor = view.current;
    if (!editor || editor.state.doc.toString() === text) return;
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: text } });
  }, [text]);
  useEffect(() => {
    const editor = view.current;
    if (!editor) return;
    const length = editor.state.doc.length;
    const within = diagnostics.filter((one) => one.from <= length && one.to <= length);
    editor.dispatch(setDiagnostics(editor.state, within));
  }, [diagnostics]);
  useEffect(() => {
    const editor = view.current;
    if (!editor || !shown || shown.to > editor.state.doc.length) return;
    const effects = EditorView.scrollIntoView(shown.from, { y: "start", yMargin: 48 });
    editor.dispatch({ selection: { anchor: shown.from, head: shown.to }, effects });
  }, [shown]);
  return <div className="editor" ref={host} data-testid="editor" />;
}

function extensionsFor(file: string, isReadOnly: boolean) {
  const language = file.endsWith(".json") ? json() : /\.ya?ml$/.test(file) ? yaml() : markdown();
  return [
    lineNumbers(),
    foldGutter(),
    lintGutter(),
    history(),
    bracketMatching(),
    closeBrackets(),
    autocompletion(),
    highlightActiveLine(),
    highlightSelectionMatches(),
    language,
    syntaxHighlighting(COLOURS),
    THEME,
    EditorState.readOnly.of(isReadOnly),
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({ "aria-label": t.workflow.editor(file), tabindex: "0" }),
    // Escape leaves the editor for the keyboard, as Tab indents.
    keymap.of([...searchKeymap, ...historyKeymap, ...defaultKeymap, indentWithTab]),
  ];
}

const COLOURS = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--purple)" },
  { tag: [tags.string, tags.monospace], color: "var(--text)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--blue)" },
  { tag: [tags.keyword, tags.heading], color: "var(--accent)", fontWeight: "600" },
  { tag: [tags.comment, tags.meta, tags.punctuation], color: "var(--text-faint)" },
  { tag: tags.link, color: "var(--accent)" },
]);

const THEME = EditorView.theme({
  "&": { height: "100%", backgroundColor: "var(--surface)", color: "var(--text)", fontSize: "12px" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "20px" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--text-faint)", border: "0" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--selected)",
  },
  ".cm-content ::selection": { backgroundColor: "var(--selected)" },
  ".cm-tooltip": {
    backgroundColor: "var(--raised)",
    color: "var(--text)",
    border: "1px solid var(--line-strong)",
    borderRadius: "6px",
  },
  ".cm-panels": { backgroundColor: "var(--raised)", color: "var(--text)" },
  ".cm-diagnosticAction": { backgroundColor: "var(--accent-fill)", color: "var(--on-accent)" },
});
