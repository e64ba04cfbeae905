// The editor of a source. It lives in a shadow root: its styles are then style sheets of the script, which the content
// security policy of the page permits without inline styles.
import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
} from "@codemirror/autocomplete";
import { defaultKeymap, historyKeymap, indentWithTab } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { markdown } from "@codemirror/lang-markdown";
import { yaml, yamlFrontmatter } from "@codemirror/lang-yaml";
import { bracketMatching, foldGutter, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import { EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { useEffect, useRef } from "react";
import { completeFrom, explainFrom, type Shown } from "../../builder/assist";
import {
  type Depths,
  depthsOf,
  endlessHistory,
  type History,
  historyOf,
  isNewText,
} from "../../builder/history";
import { useOuterText } from "../../builder/outer-text";
import { typeOverSelection } from "../../builder/typing";
import { t } from "../../strings";
import { COLOURS } from "../../ui/editor-colours";

/** A part of the text, in UTF-16 units. */
export type Range = { from: number; to: number };

type EditorProps = {
  file: string;
  text: string;
  isReadOnly: boolean;
  diagnostics: Diagnostic[];
  /** The part that is scrolled to and selected. */
  shown: Range | undefined;
  /** The definition that the file belongs to. */
  definition: Shown;
  onChange: (text: string) => void;
  onMove: (unit: number) => void;
  onReady: (history: History | undefined) => void;
  onHistory: (depths: Depths) => void;
};

export default function Editor(props: EditorProps) {
  const { file, text, isReadOnly, diagnostics, shown } = props;
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | undefined>(undefined);
  const states = useRef(new Map<string, EditorState>());
  const latest = useRef(props);
  const noteChange = useRef(() => {});
  latest.current = props;
  // biome-ignore lint/correctness/useExhaustiveDependencies: later changes of the text are applied below.
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    const listener = EditorView.updateListener.of((update) => {
      if (isNewText(update)) {
        noteChange.current();
        latest.current.onChange(update.state.doc.toString());
      }
      if (update.docChanged) latest.current.onHistory(depthsOf(update.state));
      if (update.selectionSet && update.view.hasFocus)
        latest.current.onMove(update.state.selection.main.head);
    });
    const readShown = () => latest.current.definition;
    const assistance = isReadOnly ? [] : [autocompletion({ override: [completeFrom(readShown)] })];
    const own = [...extensionsFor(file, isReadOnly), ...assistance, explainFrom(readShown), listener];
    // Each file keeps its history while another one is shown.
    const kept = states.current.get(`${file} ${isReadOnly}`);
    const state = kept ?? EditorState.create({ doc: text, extensions: own });
    const editor = new EditorView({ state, parent: root, root });
    view.current = editor;
    latest.current.onReady(historyOf(editor));
    latest.current.onHistory(depthsOf(editor.state));
    return () => {
      states.current.set(`${file} ${isReadOnly}`, editor.state);
      editor.destroy();
      view.current = undefined;
      latest.current.onReady(undefined);
    };
  }, [file, isReadOnly]);
  noteChange.current = useOuterText(view, text);
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

function languageOf(file: string) {
  if (file.endsWith(".json")) return json();
  return /\.ya?ml$/.test(file) ? yaml() : yamlFrontmatter({ content: markdown() });
}

function extensionsFor(file: string, isReadOnly: boolean) {
  const language = languageOf(file);
  return [
    lineNumbers(),
    foldGutter(),
    lintGutter(),
    endlessHistory,
    typeOverSelection,
    bracketMatching(),
    closeBrackets(),
    highlightActiveLine(),
    highlightSelectionMatches(),
    language,
    syntaxHighlighting(COLOURS),
    THEME,
    EditorState.readOnly.of(isReadOnly),
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({ "aria-label": t.workflow.editor(file), tabindex: "0" }),
    // Escape leaves the editor for the keyboard, as Tab indents.
    keymap.of([
      ...closeBracketsKeymap,
      ...searchKeymap,
      ...historyKeymap,
      ...completionKeymap,
      ...lintKeymap,
      ...defaultKeymap,
      indentWithTab,
    ]),
  ];
}

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
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": {
    backgroundColor: "var(--accent-fill)",
    color: "var(--on-accent)",
  },
  ".cm-tooltip.cm-completionInfo": { padding: "6px 10px", maxWidth: "360px" },
  ".cm-completionDetail": { color: "inherit", opacity: "0.8", fontStyle: "normal" },
  ".meaning": { maxWidth: "420px", padding: "6px 10px", fontFamily: "var(--font)" },
  ".meaning p": { margin: "0 0 4px" },
  ".meaning code": { fontFamily: "var(--mono)" },
  ".cm-panels": { backgroundColor: "var(--raised)", color: "var(--text)" },
  ".cm-diagnosticAction": { backgroundColor: "var(--accent-fill)", color: "var(--on-accent)" },
});
