// References in texts, as each format writes them.
import type { Json } from "../api/json";
import { belowOf, type FormSchema } from "./context";

/** A part of a text: written as it is, or a reference with its value. */
export type Piece = { text: string; isReference: boolean; isKnown: boolean; reference: string };

const PATTERNS: Record<string, RegExp> = {
  "${}": /\$\{([^{}]+)\}/g,
  "{{}}": /\{\{([^{}]+)\}\}/g,
  "{}": /\{([^{}\n]+)\}/g,
};

export function referenceTo(name: string, style: string): string {
  if (style === "{{}}") return `{{${name}}}`;
  return style === "${}" ? `\${${name}}` : `{${name}}`;
}

/** Whether a text is one reference and nothing else. */
export function isReference(text: string, style: string): boolean {
  const found = PATTERNS[style] && [...text.trim().matchAll(PATTERNS[style])];
  return found?.length === 1 && found[0]?.[0] === text.trim();
}

/** The names of the variables to which the texts of a value refer, according to its form. */
export function listReferences(schema: FormSchema, value: Json | undefined): string[] {
  const found = new Set<string>();
  addReferences(schema, value, found);
  return [...found];
}

function addReferences(schema: FormSchema, value: Json | undefined, found: Set<string>): void {
  if (typeof value === "string") {
    const style = schema["x-widget"] === "template" ? (schema["x-references"] ?? "{{}}") : "";
    for (const [, path = ""] of value.matchAll(PATTERNS[style] ?? /$^/g)) {
      const [root] = path.trim().split(/[.[\]]+/);
      if (root) found.add(root);
    }
  } else if (Array.isArray(value)) {
    for (const item of value) addReferences(belowOf(schema, schema.items), item, found);
  } else if (typeof value === "object" && value !== null) {
    for (const [name, one] of Object.entries(value)) {
      const below = schema.properties?.[name] ?? schema.additionalProperties;
      addReferences(belowOf(schema, below), one, found);
    }
  }
}

/** A text in which references are their last values. */
export function previewOf(text: string, style: string, last: ReadonlyMap<string, Json>): Piece[] {
  const pieces: Piece[] = [];
  let from = 0;
  for (const found of text.matchAll(PATTERNS[style] ?? /$^/g)) {
    if (found.index > from) pieces.push(plain(text.slice(from, found.index)));
    const value = lookUp((found[1] ?? "").trim(), last);
    pieces.push({
      text: value === undefined ? found[0] : typeof value === "string" ? value : JSON.stringify(value),
      isReference: true,
      isKnown: value !== undefined,
      reference: found[0],
    });
    from = found.index + found[0].length;
  }
  if (from < text.length) pieces.push(plain(text.slice(from)));
  return pieces;
}

function plain(text: string): Piece {
  return { text, isReference: false, isKnown: true, reference: "" };
}

function lookUp(path: string, last: ReadonlyMap<string, Json>): Json | undefined {
  const [root = "", ...rest] = path.split(/[.[\]]+/).filter(Boolean);
  let value = last.get(root);
  for (const step of rest) {
    if (typeof value !== "object" || value === null) return undefined;
    value = (value as Record<string, Json>)[step];
  }
  return value;
}
