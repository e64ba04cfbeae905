import { expect, test } from "vitest";
import { listReferences, previewOf, referenceTo } from "./references";

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

test("the references of a value are found where its form has them", () => {
  const template = { "x-widget": "template" as const, "x-references": "{}" };
  const schema = {
    properties: { text: template, code: {}, rows: { items: { properties: { value: template } } } },
  };
  const value = { text: "Dear {customer.name}, {topic}", code: "{no}", rows: [{ value: "{mood} {topic}" }] };
  expect(listReferences(schema, value)).toEqual(["customer", "topic", "mood"]);
});
