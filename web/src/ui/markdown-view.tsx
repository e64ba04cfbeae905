// Markdown as elements. Only the reader of the library is used: what it finds becomes elements here, HTML and pictures stay
// text, and links lead to web addresses only. So a hostile text stays text.
//
// The time that the reader takes grows with the square of the length of a paragraph, and a text that arrives is read anew with
// each piece. So what it reads is bounded here, for everything that shows Markdown; the rest is shown as it is written.
import { Lexer, type Token, type Tokens } from "marked";
import { type ReactNode, useDeferredValue, useMemo } from "react";

/** Maximum nesting; deeper text is shown as it is written. */
const MAX_DEPTH = 40;
/** Of a longer text, this part is formatted. */
export const MAX_FORMATTED_CHARACTERS = 20_000;
/** The text of a longer paragraph, item, heading or cell is shown as it is written. */
export const MAX_INLINE_CHARACTERS = 4_000;

export default function MarkdownView({ text }: { text: string }) {
  // While text arrives, what the viewer does goes before it.
  const shown = useDeferredValue(text);
  const end = findFormattedEnd(shown);
  // Once a text is longer, its start is the same whatever arrives, and is not read again.
  const start = shown.slice(0, end);
  const formatted = useMemo(() => renderText(start), [start]);
  return (
    <>
      {formatted}
      {end < shown.length && <p>{shown.slice(end)}</p>}
    </>
  );
}

/** Where the part of a text ends that is formatted: after a line, if it has one. It depends on that part only. */
function findFormattedEnd(text: string): number {
  if (text.length <= MAX_FORMATTED_CHARACTERS) return text.length;
  return text.lastIndexOf("\n", MAX_FORMATTED_CHARACTERS - 1) + 1 || MAX_FORMATTED_CHARACTERS;
}

/** The reader, without the marks within long paragraphs. */
class BoundedLexer extends Lexer {
  override inlineTokens(text: string, tokens: Token[] = []): Token[] {
    if (text.length <= MAX_INLINE_CHARACTERS) return super.inlineTokens(text, tokens);
    tokens.push({ type: "text", raw: text, text, escaped: false });
    return tokens;
  }
}

/** A text whose nesting is too deep for the reader is shown as it is. */
function renderText(text: string): ReactNode {
  try {
    return renderAll(new BoundedLexer().lex(text), 0);
  } catch {
    return <p>{text}</p>;
  }
}

function renderAll(tokens: readonly Token[] | undefined, depth: number): ReactNode[] {
  return (tokens ?? []).map((token, at) => (depth > MAX_DEPTH ? token.raw : render(token, at, depth + 1)));
}

/** What needs nothing but its content. */
const PLAIN: Record<string, "p" | "blockquote" | "strong" | "em" | "del"> = {
  paragraph: "p",
  blockquote: "blockquote",
  strong: "strong",
  em: "em",
  del: "del",
};

function render(token: Token, key: number, depth: number): ReactNode {
  const Plain = PLAIN[token.type];
  if (Plain) return <Plain key={key}>{renderAll((token as Tokens.Generic).tokens, depth)}</Plain>;
  switch (token.type) {
    case "heading":
      return (
        <p key={key} className="markdown-heading" data-level={(token as Tokens.Heading).depth}>
          {renderAll((token as Tokens.Heading).tokens, depth)}
        </p>
      );
    case "code":
      return <pre key={key}>{(token as Tokens.Code).text}</pre>;
    case "codespan":
      return <code key={key}>{(token as Tokens.Codespan).text}</code>;
    case "list":
      return renderList(token as Tokens.List, key, depth);
    case "checkbox":
      return (
        <input key={key} type="checkbox" checked={(token as Tokens.Checkbox).checked} disabled readOnly />
      );
    case "table":
      return renderTable(token as Tokens.Table, key, depth);
    case "link":
      return renderLink(token as Tokens.Link, key, depth);
    case "text":
      return "tokens" in token ? renderAll(token.tokens, depth) : (token as Tokens.Text).text;
    case "escape":
      return (token as Tokens.Escape).text;
    case "br":
      return <br key={key} />;
    case "hr":
      return <hr key={key} />;
    case "space":
    case "def":
      return null;
    default:
      return token.raw;
  }
}

function renderList(list: Tokens.List, key: number, depth: number): ReactNode {
  const items = list.items.map((item, at) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: items of a list have no identity but their position.
    <li key={at}>{renderAll(item.tokens, depth)}</li>
  ));
  if (!list.ordered) return <ul key={key}>{items}</ul>;
  return (
    <ol key={key} start={list.start === "" ? 1 : list.start}>
      {items}
    </ol>
  );
}

function renderTable({ header, rows }: Tokens.Table, key: number, depth: number): ReactNode {
  return (
    <div key={key} className="value-scroll">
      <table className="table">
        <thead>
          <tr>
            {header.map((cell, at) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: a cell is known by its position.
              <th key={at} scope="col">
                {renderAll(cell.tokens, depth)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: a row is known by its position.
            <tr key={at}>
              {row.map((cell, column) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: a cell is known by its position.
                <td key={column}>{renderAll(cell.tokens, depth)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const WEB_ADDRESS = /^https?:\/\//i;

function renderLink({ href, tokens, raw }: Tokens.Link, key: number, depth: number): ReactNode {
  if (!WEB_ADDRESS.test(href)) return raw;
  return (
    <a key={key} href={href} target="_blank" rel="noreferrer noopener">
      {renderAll(tokens, depth)}
    </a>
  );
}
