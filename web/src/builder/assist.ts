// Completion and hover of the source editor: the same analysis as in the language server, asked over HTTP.
import {
  type Completion,
  type CompletionContext,
  type CompletionResult,
  snippet,
} from "@codemirror/autocomplete";
import { hoverTooltip } from "@codemirror/view";
import { ByteMap } from "../places/workflow/bytes";
import { analyze, type Place, type Source } from "./definition";
import { toSnippet } from "./snippet";

/** What the editor shows: the definition with the text as it is now, and the file in it. */
export type Shown = { source: Source; file: string; format: string | undefined };

/** Icons that CodeMirror has for kinds. */
const ICONS: Record<string, string> = {
  key: "property",
  value: "enum",
  variable: "variable",
  function: "function",
  reference: "class",
  skeleton: "keyword",
  member: "property",
};

/** Asks about a place. The answer to an older question is not shown: its request is ended. */
async function ask(shown: Shown, text: string, place: Place, signal?: AbortSignal) {
  const source = { ...shown.source, files: { ...shown.source.files, [shown.file]: text } };
  try {
    return await analyze(source, shown.format, { ...place, file: shown.file }, signal);
  } catch {
    // Without an answer nothing is shown; the problem list shows what is wrong with the definition.
    return undefined;
  }
}

export function completeFrom(read: () => Shown) {
  return async (context: CompletionContext): Promise<CompletionResult | null> => {
    const before = context.matchBefore(/[\w$"<{./:-]+/);
    if (!before && !context.explicit) return null;
    const text = context.state.doc.toString();
    const map = new ByteMap(text);
    const ending = new AbortController();
    context.addEventListener("abort", () => ending.abort());
    const answer = await ask(
      read(),
      text,
      { what: "completions", at: map.toByte(context.pos) },
      ending.signal,
    );
    const [first] = answer?.completions ?? [];
    if (!answer || !first || context.aborted) return null;
    const from = map.toUnit(first.start);
    const to = map.toUnit(first.start + first.length);
    const opening = /^["<]/.exec(text.slice(from, to))?.[0] ?? "";
    const options = answer.completions.map((item, order): Completion => {
      const label = opening + item.label;
      return {
        label,
        displayLabel: item.label,
        type: ICONS[item.kind] ?? "text",
        boost: -order / 100,
        ...(item.detail && { detail: item.detail }),
        ...(item.meaning && { info: item.meaning }),
        apply: item.is_snippet
          ? (view, completion) => snippet(toSnippet(item.insert))(view, completion, from, to)
          : (view) => {
              const selection = { anchor: from + item.insert.length };
              view.dispatch({
                changes: { from, to, insert: item.insert },
                selection,
                userEvent: "input.complete",
              });
            },
      };
    });
    return { from, to, options, filter: true };
  };
}

export function explainFrom(read: () => Shown) {
  return hoverTooltip(async (view, position) => {
    const text = view.state.doc.toString();
    const map = new ByteMap(text);
    const answer = await ask(read(), text, { what: "meaning", at: map.toByte(position) });
    const meaning = answer?.meaning;
    if (!meaning || view.state.doc.toString() !== text) return null;
    return {
      pos: map.toUnit(meaning.start),
      end: map.toUnit(meaning.start + meaning.length),
      create: () => ({ dom: writeMeaning(meaning.text) }),
    };
  });
}

/** The paragraphs of a meaning; text between backquotes is code. */
function writeMeaning(text: string): HTMLElement {
  const box = document.createElement("div");
  box.className = "meaning";
  for (const paragraph of text.split("\n\n")) {
    const line = box.appendChild(document.createElement("p"));
    paragraph.split("`").forEach((piece, at) => {
      line.appendChild(document.createElement(at % 2 ? "code" : "span")).textContent = piece;
    });
  }
  return box;
}
