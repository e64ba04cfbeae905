// Markdown as one plain line, for places that have no room for its format.

/** Marks at the beginning of a line: headings, quotations, lists, fences. */
const LINE_MARKS = /^\s*(?:#{1,6}\s+|>\s?|[-*+]\s+|\d+\.\s+|```.*$|[-*_]{3,}\s*$)/gm;

export function toPlainText(markdown: string): string {
  return markdown
    .replace(LINE_MARKS, "")
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/(\*\*|__|\*|`)(?=\S)(.+?)\1/g, "$2")
    .replace(/\s+/g, " ")
    .trim();
}
