// Values that are edited as text: a text as it is, anything else as JSON.
import { formatJson, type Json, parseJson } from "../api/json";

/** Values by their names, such as inputs or variables. */
export type Values = { [name: string]: Json };

/** A value as people edit it. */
export function entryOf(value: Json | undefined): string {
  return typeof value === "string" ? value : formatJson(value);
}

/** The values whose text was changed. A text stays a text. Throws a `SyntaxError` if another value is no JSON. */
export function changedValues(values: Values, entries: { [name: string]: string }): Values {
  const changed: Values = {};
  for (const [name, text] of Object.entries(entries)) {
    const before = values[name];
    if (text === entryOf(before)) continue;
    changed[name] = typeof before === "string" ? text : parseJson(text);
  }
  return changed;
}
