// The fields of a form for a value, and the value that was entered. What no field fits is entered as JSON.
import { ExactNumber, type Json, parseJson } from "../api/json";
import { t } from "../strings";

/** The part of a JSON Schema that fields show. */
export type Schema = {
  type?: string;
  title?: string;
  description?: string;
  enum?: Json[];
  default?: Json;
  properties?: { [name: string]: Schema };
  required?: string[];
  items?: Schema;
};

/** What the viewer has entered: text for each field, by name. The field of a value that is no object has no name. */
export type Entries = { [field: string]: string };

/** A field of a form. */
export type Field = {
  name: string;
  label: string;
  help: string | undefined;
  /** `any` is a text, or JSON if it begins like an object or a list. `list` has one text on each line, or is JSON. */
  kind: "text" | "long" | "any" | "number" | "boolean" | "choice" | "list" | "file" | "json";
  options: Json[];
  isRequired: boolean;
  start: string;
};

/** The name of the field of a value that is no object. */
export const WHOLE = "";

/** The fields of a schema; without one the value is a text. */
export function listFields(schema: Schema | undefined): Field[] {
  if (schema?.type === "object" && schema.properties) {
    const required = schema.required ?? [];
    return Object.entries(schema.properties).map(([name, part]) =>
      toField(name, part, required.includes(name)),
    );
  }
  return [toField(WHOLE, schema ?? { type: "string" }, true)];
}

function toField(name: string, schema: Schema, isRequired: boolean): Field {
  const label = schema.title ?? (name || t.answer.value);
  const kind = kindOf(schema);
  const options = kind === "boolean" ? [true, false] : (schema.enum ?? []);
  const start = schema.default === undefined ? "" : toText(schema.default, kind);
  return { name, label, help: schema.description, kind, options, isRequired, start };
}

function kindOf(schema: Schema): Field["kind"] {
  if (schema.enum) return "choice";
  switch (schema.type) {
    case "string":
      return "long";
    case "number":
    case "integer":
      return "number";
    case "boolean":
      return "boolean";
    default:
      return "json";
  }
}

function toText(value: Json, kind: Field["kind"]): string {
  return typeof value === "string" && kind !== "json" && kind !== "choice" ? value : JSON.stringify(value);
}

/** The entries before the viewer has entered anything. */
export function startEntries(fields: readonly Field[]): Entries {
  return Object.fromEntries(fields.map((field) => [field.name, field.start]));
}

/** The first required field without content. A value of any kind may be an empty text. */
export function findMissing(fields: readonly Field[], entries: Entries): Field | undefined {
  const isMissing = ({ name, kind, isRequired }: Field) =>
    isRequired && kind !== "any" && (entries[name] ?? "").trim() === "";
  return fields.find(isMissing);
}

/** The entry does not fit its field; the message names the field. */
export class InvalidEntry extends Error {
  constructor(
    message: string,
    readonly field: Field,
  ) {
    super(message);
  }
}

/** The value that was entered. Throws an `InvalidEntry` if a required entry is missing or one does not fit its field. */
export function readComplete(fields: readonly Field[], entries: Entries): Json {
  const missing = findMissing(fields, entries);
  if (missing) throw new InvalidEntry(explainMissing(missing), missing);
  return readEntries(fields, entries);
}

function explainMissing({ kind, label }: Field): string {
  const isChosen = kind === "choice" || kind === "boolean" || kind === "file";
  return isChosen ? t.answer.notChosen(label) : t.answer.missing(label);
}

/** The value that was entered. Throws an `InvalidEntry` if it does not fit a field. */
export function readEntries(fields: readonly Field[], entries: Entries): Json {
  const values = fields
    .filter((field) => field.isRequired || (entries[field.name] ?? "") !== "")
    .map((field) => [field.name, readEntry(field, entries[field.name] ?? "")] as const);
  const [first] = values;
  return first?.[0] === WHOLE ? first[1] : Object.fromEntries(values);
}

function readEntry(field: Field, text: string): Json {
  if (field.kind === "text" || field.kind === "long") return text;
  if (field.kind === "any" && !/^\s*[[{]/.test(text)) return text;
  if (field.kind === "list" && !/^\s*\[/.test(text)) return listLines(text);
  const value = tryParse(text);
  if (field.kind === "number" && !isNumber(value))
    throw new InvalidEntry(t.answer.wrong.number(field.label), field);
  if (value !== undefined) return value;
  // A text may begin with a bracket, too.
  if (field.kind === "any") return text;
  throw new InvalidEntry(t.answer.wrong.json(field.label), field);
}

function tryParse(text: string): Json | undefined {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

function isNumber(value: Json | undefined): value is number | ExactNumber {
  return typeof value === "number" || value instanceof ExactNumber;
}

function listLines(text: string): string[] {
  return text.split("\n").flatMap((line) => line.trim() || []);
}
