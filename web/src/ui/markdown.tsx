// Markdown as elements. It knows no HTML, loads no picture and follows only web addresses, so a hostile text stays text.
import type { ReactNode } from "react";

type Block =
  | { kind: "heading"; level: number; text: string }
  | { kind: "code"; text: string }
  | { kind: "list"; isOrdered: boolean; items: string[] }
  | { kind: "quote"; text: string }
  | { kind: "rule" }
  | { kind: "text"; text: string };

export function Markdown({ text }: { text: string }) {
  return (
    <div className="markdown" dir="auto">
      {parseBlocks(text).map((block, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: blocks of a text have no identity but their position.
        <BlockView key={at} block={block} />
      ))}
    </div>
  );
}

function BlockView({ block }: { block: Block }) {
  switch (block.kind) {
    case "heading":
      return (
        <p className="markdown-heading" data-level={block.level}>
          {renderInline(block.text)}
        </p>
      );
    case "code":
      return <pre>{block.text}</pre>;
    case "list": {
      const List = block.isOrdered ? "ol" : "ul";
      return (
        <List>
          {block.items.map((item, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: items of a list have no identity but their position.
            <li key={at}>{renderInline(item)}</li>
          ))}
        </List>
      );
    }
    case "quote":
      return <blockquote>{renderInline(block.text)}</blockquote>;
    case "rule":
      return <hr />;
    case "text":
      return <p>{renderInline(block.text)}</p>;
  }
}

const LIST_ITEM = /^\s{0,3}(?:[-*+]|(\d{1,9})[.)])\s+(.*)$/;

/** Splits a text into blocks. Each line is looked at once. */
export function parseBlocks(text: string): Block[] {
  const blocks: Block[] = [];
  const lines = text.split("\n");
  let isOpen = false;
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? "";
    const last = blocks.at(-1);
    const heading = /^(#{1,6})\s+(.*)$/.exec(line);
    const item = LIST_ITEM.exec(line);
    if (line.startsWith("```")) {
      const end = findFence(lines, at + 1);
      blocks.push({ kind: "code", text: lines.slice(at + 1, end).join("\n") });
      at = end;
    } else if (heading) {
      blocks.push({ kind: "heading", level: heading[1]?.length ?? 1, text: heading[2] ?? "" });
    } else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
      blocks.push({ kind: "rule" });
    } else if (item) {
      const isOrdered = item[1] !== undefined;
      if (isOpen && last?.kind === "list" && last.isOrdered === isOrdered) last.items.push(item[2] ?? "");
      else blocks.push({ kind: "list", isOrdered, items: [item[2] ?? ""] });
    } else if (line.startsWith(">")) {
      const quoted = line.replace(/^>\s?/, "");
      if (isOpen && last?.kind === "quote") last.text += `\n${quoted}`;
      else blocks.push({ kind: "quote", text: quoted });
    } else if (line.trim() !== "") {
      if (isOpen && last?.kind === "text") last.text += `\n${line}`;
      else blocks.push({ kind: "text", text: line });
    }
    isOpen = line.trim() !== "";
  }
  return blocks;
}

function findFence(lines: string[], from: number): number {
  for (let at = from; at < lines.length; at++) {
    if (lines[at]?.startsWith("```")) return at;
  }
  return lines.length;
}

const INLINE = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|\*([^*\s][^*\n]*)\*|\[([^\]\n]+)\]\((https?:\/\/[^\s)]+)\)/g;

function renderInline(text: string): ReactNode[] {
  const parts: ReactNode[] = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    parts.push(text.slice(end, match.index));
    end = match.index + match[0].length;
    const [, code, strong, emphasis, label, address] = match;
    if (code) parts.push(<code key={match.index}>{code}</code>);
    else if (strong) parts.push(<strong key={match.index}>{strong}</strong>);
    else if (emphasis) parts.push(<em key={match.index}>{emphasis}</em>);
    else if (label && address) {
      parts.push(
        <a key={match.index} href={address} target="_blank" rel="noreferrer noopener">
          {label}
        </a>,
      );
    }
  }
  parts.push(text.slice(end));
  return parts;
}
