// Texts of values that are data, such as lists: JSON, or one reference in place of the whole value.
import { formatJson, type Json, parseJson } from "../api/json";
import type { FormSchema } from "./context";
import { isReference } from "./references";

/** Whether a field with a form of its own can have a reference instead. Only pipelines resolve references to data. */
export function canBind(schema: FormSchema): boolean {
  const isPlainText = !schema.enum && !["array", "object", "boolean"].includes(schema.type ?? "");
  return schema["x-widget"] === "template" && schema["x-references"] === "{{}}" && !isPlainText;
}

/** Whether a value is one that only a text can show. */
export function isBound(schema: FormSchema, value: Json | undefined): boolean {
  if (value === undefined || value === null) return false;
  if (schema.type === "array") return !Array.isArray(value);
  if (schema.type === "object") return typeof value !== "object" || Array.isArray(value);
  return typeof value === "string" && value.includes("{{");
}

export function isEmptyData(value: Json | undefined): boolean {
  return (
    value === undefined || value === null || (typeof value === "object" && Object.keys(value).length === 0)
  );
}

/** Whether the text of a field is data rather than text. */
export function isData(schema: FormSchema, value: Json | undefined): boolean {
  const isTyped = ["array", "object", "boolean"].includes(schema.type ?? "");
  return isTyped || (typeof value === "object" && value !== null);
}

export function writeData(value: Json | undefined): string {
  if (isEmptyData(value)) return "";
  return typeof value === "string" ? value : formatJson(value);
}

/** The value of a text of data; undefined if it is neither JSON nor a reference. */
export function readData(text: string, style: string): Json | undefined {
  if (isReference(text, style)) return text.trim();
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

type Insertion = { text: string; from: number; to: number; reference: string };

/** A text in which a reference replaces a selection. `isFitting` returns whether a text can be stored. */
export function insertReference(
  { text, from, to, reference }: Insertion,
  isFitting: (text: string) => boolean,
): string {
  const replaceBy = (inserted: string) => text.slice(0, from) + inserted + text.slice(to);
  const isAtEnd = from === 0 || to === text.length;
  const choices = [
    replaceBy(reference),
    replaceBy(JSON.stringify(reference)),
    ...(isAtEnd ? [reference] : []),
  ];
  return choices.find(isFitting) ?? replaceBy(reference);
}
