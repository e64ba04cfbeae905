// Which field enters a value.
import type { Json } from "../api/json";
import type { FormSchema } from "./context";

const CODE_KEY = "$code";

type Kind =
  | "object"
  | "rows"
  | "entries"
  | "boolean"
  | "names"
  | "choice"
  | "template"
  | "code"
  | "schema"
  | "model"
  | "json"
  | "text";

/** The field that fits both the schema and the present value. */
export function fieldKind(schema: FormSchema, value: Json | undefined): Kind {
  const widget = schema["x-widget"];
  const isText = value === undefined || value === null || typeof value === "string";
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  if (isObject && CODE_KEY in value) return "code";
  if (widget === "code") return isText || typeof value !== "object" ? "code" : "json";
  if (widget === "schema") return value === undefined || value === null || isObject ? "schema" : "json";
  if (widget === "json") return "json";
  if (schema.type === "array" || (Array.isArray(value) && schema.items)) {
    return value === undefined || value === null || Array.isArray(value) ? "rows" : "json";
  }
  if (schema.type === "object") {
    if (value !== undefined && value !== null && !isObject) return "json";
    return schema.properties ? "object" : "entries";
  }
  if (isNames(schema) && !isObject) return "names";
  if (typeof value === "object" && value !== null) return widget === "template" ? "template" : "json";
  if (schema.type === "boolean") return "boolean";
  if (schema.enum) return "choice";
  if (widget === "template") return "template";
  return widget === "model" ? "model" : "text";
}

/** Whether a schema permits a truth value for all or none of some things, or a list of their names. */
function isNames({ anyOf }: FormSchema): boolean {
  const types = anyOf?.map((one) => (one.type === "array" ? `list of ${one.items?.type}` : one.type));
  return types?.length === 2 && types.includes("boolean") && types.includes("list of string");
}
