// What the fields of a form share.
import { createContext, useContext } from "react";
import type { Json } from "../api/json";
import { t } from "../strings";
import { toWords } from "../ui/words";
import type { Edit, NameLists, Variable } from "./definition";
import { DONE, type Outcome } from "./edit-queue";

export type FormContext = {
  isReadOnly: boolean;
  edit: (edits: Edit[]) => Promise<Outcome>;
  /** What exists outside of the definition. */
  names: NameLists | undefined;
  /** Names of the definition's own things, by what they are. */
  own: Record<string, string[]>;
  variables: Variable[];
  /** Values of the newest run, by the name of the variable. */
  last: ReadonlyMap<string, Json>;
  /** The messages of the problems of what the form is for. */
  problems: readonly string[];
};

const EMPTY: FormContext = {
  isReadOnly: true,
  edit: async () => DONE,
  names: undefined,
  own: {},
  variables: [],
  last: new Map(),
  problems: [],
};

export const FormScope = createContext<FormContext>(EMPTY);
export const useForm = () => useContext(FormScope);

/** A form: a JSON Schema without references, in which `x-widget` says how a value is entered. */
export type FormSchema = {
  type?: string;
  description?: string;
  enum?: Json[];
  const?: Json;
  examples?: Json[];
  default?: Json;
  required?: string[];
  properties?: Record<string, FormSchema>;
  additionalProperties?: FormSchema;
  items?: FormSchema;
  nullable?: boolean;
  anyOf?: FormSchema[];
  "x-widget"?: "template" | "name" | "reference" | "model" | "schema" | "long" | "code" | "json";
  "x-names"?: string;
  "x-references"?: string;
  "x-language"?: string;
  "x-long"?: boolean;
};

/** How the texts below a value are entered: as the schema says, or like the value itself. */
export function belowOf(schema: FormSchema, below: FormSchema | undefined): FormSchema {
  const { "x-widget": widget, "x-references": style } = schema;
  if (below || widget !== "template") return below ?? {};
  return { "x-widget": widget, ...(style && { "x-references": style }) };
}

/** The name of a key for people: `resultVariable` is "Result variable". */
export function labelOf(key: string): string {
  return t.build.fields[key] ?? toWords(key);
}
