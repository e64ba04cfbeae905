// Code in an editor with line numbers.
import { defaultKeymap, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, indentUnit } from "@codemirror/language";
import { Compartment, EditorState } from "@codemirror/state";
import { EditorView, keymap, lineNumbers } from "@codemirror/view";
import { useEffect, useId, useRef } from "react";
import type { Json } from "../api/json";
import { loadLanguage } from "./code-language";
import { useForm } from "./context";
import { useEntry, useStore } from "./entry";
import { type FieldProps, Frame } from "./frame";
import { endlessHistory, isNewText } from "./history";
import { useOuterText } from "./outer-text";
import { typeOverSelection } from "./typing";

export function CodeField(props: FieldProps) {
  const { schema, value, label } = props;
  const { isReadOnly } = useForm();
  const id = useId();
  const store = useStore(props);
  const language = schema["x-language"] ?? "javascript";
  const isExpression = language === "javascript";
  const shown = readCode(value);
  const entry = useEntry(shown, (text) => {
    if (text.trim() === "" && !props.isRequired) return store(undefined);
    return store(isExpression ? { $code: text } : text);
  });
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | undefined>(undefined);
  const latest = useRef(entry);
  const noteChange = useRef(() => {});
  latest.current = entry;
  // biome-ignore lint/correctness/useExhaustiveDependencies: later changes of the text are applied below.
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const colours = new Compartment();
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    const listener = EditorView.updateListener.of((update) => {
      if (isNewText(update)) {
        noteChange.current();
        latest.current.change(update.state.doc.toString());
      }
      if (update.focusChanged && !update.view.hasFocus) latest.current.flush();
    });
    const extensions = [
      ...(isExpression ? [] : [lineNumbers()]),
      endlessHistory,
      typeOverSelection,
      bracketMatching(),
      indentUnit.of(isExpression ? "  " : "    "),
      EditorState.readOnly.of(isReadOnly),
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
      keymap.of([...historyKeymap, ...defaultKeymap, ...(isExpression ? [] : [indentWithTab])]),
      THEME,
      colours.of([]),
      listener,
    ];
    const editor = new EditorView({
      state: EditorState.create({ doc: shown, extensions }),
      parent: root,
      root,
    });
    view.current = editor;
    void loadLanguage(language).then((syntax) => {
      if (view.current === editor) editor.dispatch({ effects: colours.reconfigure(syntax) });
    });
    return () => {
      editor.destroy();
      view.current = undefined;
    };
  }, [isReadOnly, language, label]);
  noteChange.current = useOuterText(view, entry.text);
  return (
    <Frame id={id} props={props} error={entry.refusal}>
      <div id={id} className="code-field" ref={host} />
    </Frame>
  );
}

function readCode(value: Json | undefined): string {
  if (value === undefined || value === null) return "";
  if (typeof value === "string") return value;
  if (typeof value === "object" && "$code" in value) return String(value.$code);
  return JSON.stringify(value);
}

const THEME = EditorView.theme({
  "&": { backgroundColor: "var(--surface)", color: "var(--text)", fontSize: "12px", maxHeight: "320px" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "20px", overflow: "auto" },
  ".cm-content": { caretColor: "var(--text)", minHeight: "28px" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--text-faint)", border: "0" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
});
