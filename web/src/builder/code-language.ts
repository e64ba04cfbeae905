// The languages of code fields. Each is loaded when a field shows it.
import { syntaxHighlighting } from "@codemirror/language";
import type { Extension } from "@codemirror/state";
import { CODE_COLOURS } from "../ui/editor-colours";

/** The syntax of a language with its colours; nothing for one that is not known. */
export async function loadLanguage(name: string): Promise<Extension> {
  switch (name) {
    case "python":
      return [(await import("@codemirror/lang-python")).python(), syntaxHighlighting(CODE_COLOURS)];
    case "javascript":
      return [(await import("@codemirror/lang-javascript")).javascript(), syntaxHighlighting(CODE_COLOURS)];
    default:
      return [];
  }
}
