import { expect, test } from "vitest";
import { previewOf, referenceTo } from "./references";

test("a reference is written as its format writes it", () => {
  expect(["${}", "{{}}", "{}"].map((style) => referenceTo("a.b", style))).toEqual([
    "${a.b}",
    "{{a.b}}",
    "{a.b}",
  ]);
});

test("the preview shows values where they are known", () => {
  const last = new Map([["page", { title: "Home", words: [1, 2] }]]);
  const show = (text: string) => previewOf(text, "{{}}", last).map((piece) => piece.text);
  expect(show("{{page.title}} has {{page.words[1]}} words, {{other}}.")).toEqual([
    "Home",
    " has ",
    "2",
    " words, ",
    "{{other}}",
    ".",
  ]);
});
