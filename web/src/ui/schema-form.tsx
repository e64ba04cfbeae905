// Fields for a value that a JSON Schema describes. What no field fits is entered as JSON.
import { type Json, parseJson } from "../api/json";
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
  /** `any` is a text, or JSON if it begins like an object or a list. */
  kind: "text" | "long" | "any" | "number" | "boolean" | "choice" | "json";
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

/** The first required field without content. */
export function findMissing(fields: readonly Field[], entries: Entries): Field | undefined {
  return fields.find((field) => field.isRequired && (entries[field.name] ?? "").trim() === "");
}

/** The entry does not fit its field; the message names the field. */
export class InvalidEntry extends Error {}

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
  try {
    return parseJson(text);
  } catch {
    // A text may begin with a bracket, too.
    if (field.kind === "any") return text;
    throw new InvalidEntry(t.answer.wrong[field.kind === "number" ? "number" : "json"](field.label));
  }
}

type FieldsProps = {
  fields: readonly Field[];
  entries: Entries;
  onChange: (entries: Entries) => void;
  isFirstFocused?: boolean;
};

export function SchemaFields({ fields, entries, onChange, isFirstFocused = false }: FieldsProps) {
  return fields.map((field, at) => (
    // biome-ignore lint/a11y/noLabelWithoutControl: the control is the component inside.
    <label key={field.name} className="field">
      <span>
        {field.label}
        {field.isRequired && fields.length > 1 && <small className="faint"> ({t.answer.required})</small>}
      </span>
      <FieldInput
        field={field}
        value={entries[field.name] ?? ""}
        onChange={(value) => onChange({ ...entries, [field.name]: value })}
        isFocused={isFirstFocused && at === 0}
      />
      {field.help && <small>{field.help}</small>}
    </label>
  ));
}

type FieldInputProps = { field: Field; value: string; onChange: (value: string) => void; isFocused: boolean };

function FieldInput({ field, value, onChange, isFocused }: FieldInputProps) {
  const common = {
    className: "input",
    value,
    required: field.isRequired && field.kind !== "long" && field.kind !== "any",
    autoFocus: isFocused,
    onChange: (event: { target: { value: string } }) => onChange(event.target.value),
  };
  switch (field.kind) {
    case "choice":
    case "boolean":
      return (
        <select {...common}>
          <option value="" />
          {field.options.map((option) => (
            <option key={JSON.stringify(option)} value={JSON.stringify(option)}>
              {typeof option === "string" ? option : JSON.stringify(option)}
            </option>
          ))}
        </select>
      );
    case "number":
      return <input {...common} type="number" step="any" />;
    case "text":
      return <input {...common} type="text" />;
    case "long":
    case "any":
      return <textarea {...common} rows={2} />;
    case "json":
      return <textarea {...common} rows={4} spellCheck={false} className="input mono" />;
  }
}
