// The colours of code in editors.
import { HighlightStyle } from "@codemirror/language";
import { tags } from "@lezer/highlight";

export const COLOURS = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--purple)" },
  { tag: [tags.string, tags.monospace], color: "var(--text)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--blue)" },
  { tag: [tags.keyword, tags.heading], color: "var(--accent)", fontWeight: "600" },
  { tag: [tags.comment, tags.meta, tags.punctuation], color: "var(--text-faint)" },
  { tag: tags.link, color: "var(--accent)" },
]);

/** The same for programs, whose texts stand out from their names. */
export const CODE_COLOURS = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: "var(--accent)", fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: "var(--green)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: "var(--blue)" },
  { tag: [tags.function(tags.variableName), tags.function(tags.propertyName)], color: "var(--purple)" },
  { tag: [tags.definition(tags.variableName), tags.className, tags.typeName], color: "var(--purple)" },
  { tag: [tags.comment, tags.meta], color: "var(--text-faint)" },
]);
