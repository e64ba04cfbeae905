// A definition as the server sees it: its parts with values and forms, and changes of them.
import { api, read, type Schemas } from "../api/client";
import type { Json } from "../api/json";
import type { Path } from "./path";

export type Source = { entry: string; files: { [path: string]: string } };
export type Part = Schemas["Part"];
export type Link = Schemas["Link"];
export type Inspection = Schemas["Inspection"];
export type Analysis = Schemas["Analysis"];
export type Variable = Schemas["VariableInfo"];
export type NameLists = Schemas["NameLists"];

/** A change of a definition. */
export type Edit =
  | { do: "set"; path: Path; value: Json }
  | { do: "remove"; path: Path }
  | { do: "rename_key"; path: Path; name: string }
  | { do: "rename"; path: Path; name: string }
  | { do: "move"; path: Path; at: number }
  | { do: "add"; list: Path; at: number; kind: string }
  | { do: "duplicate"; path: Path }
  | { do: "paste"; list: Path; at: number; text: string }
  | { do: "connect"; path: Path; target: Path | null };

export type Question = "completions" | "meaning" | "fixes" | "variables" | "names";

function toSource(source: Source, format: string | undefined) {
  return { entry: source.entry, files: source.files, ...(format && { format }) };
}

export function inspect(source: Source, format: string | undefined): Promise<Inspection> {
  return read(api.POST("/api/v1/definitions/inspect", { body: { source: toSource(source, format) } }));
}

export function applyEdits(source: Source, format: string | undefined, edits: Edit[]) {
  const body = { source: toSource(source, format), edits: edits as never };
  return read(api.POST("/api/v1/definitions/edit", { body }));
}

export type Place = { what: Question; file?: string; at?: number };

/** Asks about a place of a definition; `at` counts bytes. */
export function analyze(
  source: Source,
  format: string | undefined,
  place: Place,
  signal?: AbortSignal,
): Promise<Analysis> {
  const body = {
    source: toSource(source, format),
    what: place.what,
    at: place.at ?? 0,
    ...(place.file && { file: place.file }),
  };
  return read(api.POST("/api/v1/definitions/analyze", { body, ...(signal && { signal }) }));
}

/** The value at a path within a value. */
export function valueAt(value: Json | undefined, path: Path): Json | undefined {
  let found: Json | undefined = value;
  for (const step of path) {
    if (typeof found !== "object" || found === null) return undefined;
    found = (found as Record<string, Json>)[step];
  }
  return found;
}
