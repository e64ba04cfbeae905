import { Lexer } from "marked";
import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test, vi } from "vitest";
import MarkdownView, { MAX_FORMATTED_CHARACTERS, MAX_INLINE_CHARACTERS } from "./markdown-view";

function render(text: string): string {
  return renderToStaticMarkup(createElement(MarkdownView, { text }));
}

test("lists count on over empty lines and nested lists", () => {
  const html = render("1. one\n\n2. two\n   - a\n   - b\n\n3. three");
  expect(html.match(/<ol/g)).toHaveLength(1);
  expect(html.match(/<li>/g)).toHaveLength(5);
  expect(html).toMatch(/two<\/p><ul><li>a<\/li><li>b<\/li><\/ul>/);
  expect(render("4. four\n5. five")).toContain('<ol start="4">');
});

test("tables, marks and addresses are formatted", () => {
  const html = render("| a | b |\n|---|---|\n| 1 | **2** |\n\n__bold__ ~~old~~ https://example.org/x");
  expect(html).toContain('<th scope="col">a</th>');
  expect(html).toContain("<td><strong>2</strong></td>");
  expect(html).toContain("<strong>bold</strong> <del>old</del>");
  expect(html).toMatch(/<a href="https:\/\/example.org\/x" target="_blank" rel="noreferrer noopener">/);
});

test("markup, pictures and other addresses stay text", () => {
  const hostile = [
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "a <b onclick=x>b</b>",
    "![x](https://example.org/x.png)",
    "[x](javascript:alert(1))",
    "[x](data:text/html,y)",
    "<javascript:alert(1)>",
    "[x]: javascript:alert(1)\n[x]",
    "mail@example.org",
  ];
  for (const text of hostile) expect(render(text)).not.toMatch(/<(img|script|b|a|input)\b/);
});

test("a text that is nested without end stays text, and breaks nothing", () => {
  for (const part of ["> ", "1. ", "- ", "[", "*", "![", "[a]("]) {
    const html = render(`${part.repeat(5000)}x`);
    expect(html).toContain("x");
    expect(html.match(/<(blockquote|ol|ul)/g)?.length ?? 0).toBeLessThan(50);
  }
});

/** The lengths of the texts whose marks are looked for. */
function countInline(text: string): number[] {
  const read = vi.spyOn(Lexer.prototype, "inlineTokens");
  render(text);
  const lengths = read.mock.calls.map(([run]) => run.length);
  read.mockRestore();
  return lengths;
}

test("in long paragraphs, items and cells no marks are looked for, and the text is shown whole", () => {
  for (const text of ["_a_".repeat(20_000), `${"a".repeat(60_000)}@`]) {
    expect(countInline(text)).toEqual([]);
    expect(render(text).replace(/<[^>]*>/g, "")).toBe(text);
  }
  const long = "_a_".repeat(MAX_INLINE_CHARACTERS / 3 + 1);
  for (const text of [long, `- ${long}`, `# ${long}`, `> ${long}`, `| a |\n|---|\n| ${long} |`]) {
    expect(render(text)).toContain(long);
    expect(render(`${text}\n\n_b_`)).toContain("<em>b</em>");
  }
});

test("however long a text is, as much of it is read", () => {
  const paragraph = `${"_a_ ".repeat(750)}b\n\n`;
  const sum = (text: string) => countInline(text).reduce((all, length) => all + length, 0);
  const bound = sum(paragraph.repeat(20));
  expect(bound).toBeLessThan(10 * MAX_FORMATTED_CHARACTERS);
  expect(sum(paragraph.repeat(200))).toBe(bound);
  const html = render(paragraph.repeat(20));
  expect(html.match(/<em>/g)).toHaveLength(6 * 750);
  expect(html.match(/_a_/g)).toHaveLength(14 * 750);
});
