// Markdown as elements. Only the reader of the library is used: what it finds becomes elements here, HTML and pictures stay
// text, and links lead to web addresses only. So a hostile text stays text.
import { lexer, type Token, type Tokens } from "marked";
import { type ReactNode, useMemo } from "react";

/** What is nested deeper is shown as it is written. */
const MAX_DEPTH = 40;

export default function MarkdownView({ text }: { text: string }) {
  return useMemo(() => renderText(text), [text]);
}

/** A text whose nesting is too deep for the reader is shown as it is. */
function renderText(text: string): ReactNode {
  try {
    return renderAll(lexer(text), 0);
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
