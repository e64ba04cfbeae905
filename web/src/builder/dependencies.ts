// Fields that only matter for some values of another field, such as the condition of a step whose mode is conditional.
import type { Json } from "../api/json";
import type { FormSchema } from "./context";

/** A field, and whether a value of it needs another one. */
type Dependency = { on: string; needs: (chosen: Json | undefined) => boolean };

const oneOf =
  (...values: string[]) =>
  (chosen: Json | undefined) =>
    values.some((value) => value === chosen);

/** Whether a request has a body. Its method can be a reference. */
const hasBody = (method: Json | undefined) =>
  oneOf("POST", "PUT", "PATCH")(method) || (typeof method === "string" && method.includes("${"));

/** The dependencies in step lists and flows, by the field that depends. */
const DEPENDENCIES: Record<string, Dependency> = {
  condition: { on: "mode", needs: oneOf("conditional") },
  maxIterations: { on: "mode", needs: oneOf("loop") },
  until: { on: "mode", needs: oneOf("loop") },
  maxRetries: { on: "errorMode", needs: oneOf("retry") },
  bodyType: { on: "method", needs: hasBody },
  body: { on: "bodyType", needs: (type) => type !== "form" },
  formData: { on: "bodyType", needs: oneOf("form") },
  querySelector: { on: "captureAs", needs: oneOf("querySelector") },
};

/** A field of a form: its name and its schema. */
export type NamedField = [name: string, schema: FormSchema];

type Schemas = ReadonlyMap<string, FormSchema>;

/** What the fields of a form depend on. A dependency counts if the form also has the other field. */
function findDependencies(schemas: Schemas): ReadonlyMap<string, Dependency> {
  const dependencies = new Map<string, Dependency>();
  for (const [name, schema] of schemas) {
    // Formats explain fields of a type with words that begin with it, as in "For type select: values".
    const type = /^For type (\w+)/.exec(schema.description ?? "")?.[1];
    const found = type === undefined ? DEPENDENCIES[name] : { on: "type", needs: oneOf(type) };
    if (found && schemas.has(found.on)) dependencies.set(name, found);
  }
  return dependencies;
}

type Entries = Record<string, Json | undefined>;

/** The fields that depend on others, and whether the chosen values need them. */
function findWanted(
  dependencies: ReadonlyMap<string, Dependency>,
  schemas: Schemas,
  entries: Entries,
): ReadonlyMap<string, boolean> {
  const isWanted = ({ on, needs }: Dependency): boolean => {
    const above = dependencies.get(on);
    return needs(entries[on] ?? schemas.get(on)?.default) && (!above || isWanted(above));
  };
  return new Map([...dependencies].map(([name, dependency]) => [name, isWanted(dependency)]));
}

/** What decides where a field is shown, apart from the values that are chosen now. */
type Placing = {
  /** Whether a field without a dependency is shown immediately, though it is empty. */
  isPlain: (field: NamedField) => boolean;
  /** Whether a field had a value when the form was opened. */
  hadValue: (name: string) => boolean;
};

/**
 * Which fields of a form are shown immediately, in order, and which ones on request. A field that depends on another
 * one follows it; a field that the chosen value does not need is left out, unless it has a value. Any other field keeps
 * its place while values are entered.
 */
export function arrangeFields(
  fields: readonly NamedField[],
  entries: Entries,
  { isPlain, hadValue }: Placing,
): { first: NamedField[]; more: NamedField[] } {
  const schemas = new Map(fields);
  const dependencies = findDependencies(schemas);
  const wanted = findWanted(dependencies, schemas, entries);
  const isFirst = (field: NamedField) => {
    const [name] = field;
    if (hadValue(name)) return true;
    const isNeeded = wanted.get(name);
    return isNeeded === undefined ? isPlain(field) : isNeeded || entries[name] !== undefined;
  };
  const first: NamedField[] = [];
  const add = (field: NamedField) => {
    if (!isFirst(field)) return;
    first.push(field);
    for (const other of fields) if (dependencies.get(other[0])?.on === field[0]) add(other);
  };
  const followsAnother = ([name]: NamedField) => {
    const on = dependencies.get(name)?.on;
    const schema = on === undefined ? undefined : schemas.get(on);
    return on !== undefined && schema !== undefined && isFirst([on, schema]);
  };
  for (const field of fields) if (!followsAnother(field)) add(field);
  const more = fields.filter((field) => wanted.get(field[0]) !== false && !isFirst(field));
  return { first, more };
}
