// The fields of a variable that no schema describes: those of its value in the newest run.
import { ExactNumber, type Json } from "../api/json";
import { isRecord } from "../ui/value";
import type { Variable } from "./definition";

/** More fields are not offered. */
const MAX_FIELDS = 50;

/** The variables, each with the fields of its last value if none are known. */
export function withSeenFields(variables: Variable[], last: ReadonlyMap<string, Json>): Variable[] {
  return variables.map((variable) => {
    const value = variable.fields.length > 0 ? undefined : last.get(variable.name);
    if (value === undefined || !isRecord(value)) return variable;
    const seen = Object.entries(value).slice(0, MAX_FIELDS);
    const fields = seen.map(([name, one]) => ({ name, type_name: typeOf(one), description: "" }));
    return { ...variable, fields };
  });
}

function typeOf(value: Json): string {
  if (value === null) return "";
  if (Array.isArray(value)) return "array";
  return value instanceof ExactNumber ? "number" : typeof value;
}
