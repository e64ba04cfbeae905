// Reads JSON without rounding numbers: ids of 64 bits and long decimals keep their text.

/** A JSON value as the page holds it. */
export type Json = null | boolean | number | string | ExactNumber | Json[] | { [key: string]: Json };

/** A number that a double cannot hold; `text` is how the document writes it. */
export class ExactNumber {
  constructor(readonly text: string) {}

  toJSON(): unknown {
    const raw = (JSON as { rawJSON?: (text: string) => unknown }).rawJSON;
    return raw ? raw(this.text) : Number(this.text);
  }
}

const LONG_NUMBER = /[-+.\deE]{16,}/;

/** Parses a document. Only one with a long number pays for the check of each number. */
export function parseJson(text: string): Json {
  return LONG_NUMBER.test(text) ? (JSON.parse(text, keepExact) as Json) : (JSON.parse(text) as Json);
}

function keepExact(_key: string, value: unknown, context?: { source?: string }): unknown {
  const source = context?.source;
  if (typeof value !== "number" || source === undefined) return value;
  return isExact(value, source) ? value : new ExactNumber(source);
}

function isExact(value: number, source: string): boolean {
  return Number.isInteger(value) ? Number.isSafeInteger(value) : source.replace(/\D/g, "").length <= 16;
}

/** Spreads a document that is one line over several lines, for people; any other text stays as it is. */
export function spreadJson(text: string): string {
  if (text.trimEnd().includes("\n")) return text;
  try {
    return formatJson(parseJson(text));
  } catch {
    return text;
  }
}

/** Writes a value as indented JSON. */
export function formatJson(value: Json | undefined): string {
  return value === undefined ? "" : JSON.stringify(value, null, 2);
}
