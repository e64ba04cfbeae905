// Fields that only matter for some values of another field, such as the condition of a step whose mode is conditional.
import type { Json } from "../api/json";
import type { FormSchema } from "./context";

/** A field, and the values of it that need another one. */
type Dependency = { on: string; values: readonly string[] };

/** The dependencies in step lists, by the field that depends. */
const DEPENDENCIES: Record<string, Dependency> = {
  condition: { on: "mode", values: ["conditional"] },
  maxIterations: { on: "mode", values: ["loop"] },
  until: { on: "mode", values: ["loop"] },
  maxRetries: { on: "errorMode", values: ["retry"] },
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
    const found = type === undefined ? DEPENDENCIES[name] : { on: "type", values: [type] };
    if (found && schemas.has(found.on)) dependencies.set(name, found);
  }
  return dependencies;
}

type Entries = Record<string, Json | undefined>;

/** Whether the chosen value needs a field that depends on it. */
function isWanted({ on, values }: Dependency, schemas: Schemas, entries: Entries): boolean {
  const chosen = entries[on] ?? schemas.get(on)?.default;
  return values.some((value) => value === chosen);
}

/**
 * Which fields of a form are shown immediately, in order, and which ones on request. A field that depends on another
 * one follows it; a field that the chosen value does not need is left out, unless it has a value. `isPlain` returns
 * whether a field without a dependency or a value is shown immediately.
 */
export function arrangeFields(
  fields: readonly NamedField[],
  entries: Entries,
  isPlain: (field: NamedField) => boolean,
): { first: NamedField[]; more: NamedField[] } {
  const schemas = new Map(fields);
  const dependencies = findDependencies(schemas);
  const wanted = new Map(
    [...dependencies].map(([name, dependency]) => [name, isWanted(dependency, schemas, entries)]),
  );
  const hasValue = ([name]: NamedField) => entries[name] !== undefined;
  const isFirst = (field: NamedField) => hasValue(field) || (wanted.get(field[0]) ?? isPlain(field));
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
