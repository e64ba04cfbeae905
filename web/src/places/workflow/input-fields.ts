// The inputs of a workflow as fields of a form: for a run that starts now, and for those that a schedule starts.
import type { Schemas } from "../../api/client";
import { ExactNumber, type Json } from "../../api/json";
import { entryOf } from "../../run/values";
import { t } from "../../strings";
import { type Entries, type Field, readComplete, readEntries, WHOLE } from "../../ui/schema-form";

type Workflow = Schemas["WorkflowInfo"];
type Input = Schemas["InputInfo"];

/** Graphs and agents declare no inputs: a run begins with a message. */
const MESSAGE: Input = { name: "message", kind: "text", is_file: false, required: true };

const KINDS: Record<string, Field["kind"]> = {
  any: "any",
  text: "long",
  number: "number",
  boolean: "boolean",
  option: "choice",
  list: "list",
  file: "file",
};

/** What is entered in fields that do not show it. */
const HELP: { [kind in Field["kind"]]?: string } = { any: t.alone.textOrJson, list: t.alone.linesOrJson };

/** The fields of a workflow's inputs. */
export function listInputFields({ inputs, format }: Pick<Workflow, "inputs" | "format">): Field[] {
  const isConversation = format === "graph" || format === "agent";
  const shown = inputs.length === 0 && isConversation ? [MESSAGE] : inputs;
  return shown.map((input) => toField(input, format));
}

/** The field of an input. The input of a step list is the whole value. */
function toField(input: Input, format: string): Field {
  const isWhole = format === "steps" && input.name === "input";
  const kind = input.is_file ? "file" : (KINDS[input.kind] ?? "long");
  const field: Field = {
    name: isWhole ? WHOLE : input.name,
    label: input.name,
    help: input.description ?? HELP[kind],
    kind,
    options: kind === "boolean" ? [true, false] : (input.options ?? []),
    isRequired: input.required || isWhole,
    start: "",
  };
  const value = input.default as Json | undefined;
  return value == null ? field : { ...field, start: toEntry(field, value) };
}

/** The inputs that were entered. Throws an `InvalidEntry` if a required one is missing or one does not fit its field. */
export function readInputs(fields: readonly Field[], entries: Entries): Json {
  return fields.length === 0 ? {} : readComplete(fields, entries);
}

/** The inputs as far as they are entered, without files; undefined while there are none, or one is not valid. */
export function tryReadInputs(fields: readonly Field[], entries: Entries): Json | undefined {
  try {
    const entered = fields.filter((field) => field.kind !== "file" && (entries[field.name] ?? "") !== "");
    return entered.length === 0 ? undefined : readEntries(entered, entries);
  } catch {
    return undefined;
  }
}

/** The entries that result in these inputs. */
export function toEntries(fields: readonly Field[], inputs: Json): Entries {
  const isObject =
    typeof inputs === "object" &&
    inputs !== null &&
    !Array.isArray(inputs) &&
    !(inputs instanceof ExactNumber);
  const values = fields.map((field) => {
    const isNothing = inputs === null || (isObject && Object.keys(inputs).length === 0);
    const value = field.name === WHOLE && !isNothing ? inputs : isObject ? inputs[field.name] : undefined;
    return [field.name, value === undefined ? field.start : toEntry(field, value)];
  });
  return Object.fromEntries(values);
}

function toEntry({ kind }: Field, value: Json): string {
  const isText = kind === "text" || kind === "long" || kind === "any";
  if (kind === "list" && Array.isArray(value) && value.every(isLine)) return value.join("\n");
  return isText ? entryOf(value) : JSON.stringify(value);
}

/** Whether an item of a list can be a line of its field. */
function isLine(item: Json): boolean {
  return typeof item === "string" && item.trim() === item && item !== "" && !/^\[|\n/.test(item);
}

/** The entries for inputs that are known by name, such as the variables of an earlier run. */
export function namedEntries(fields: readonly Field[], values: { [name: string]: Json }): Entries {
  const entries = fields.map((field) => {
    const value = values[field.label];
    return [field.name, value === undefined ? field.start : toEntry(field, value)];
  });
  return Object.fromEntries(entries);
}
