// The lists of the library.
import { queryOptions } from "@tanstack/react-query";
import { api, read, type Schemas } from "../../api/client";
import { parseJson } from "../../api/json";
import { t } from "../../strings";

export const KINDS = ["blocks", "agents", "tools", "functions", "servers"] as const;
export type Kind = (typeof KINDS)[number];
export type StoredKind = "blocks" | "agents" | "tools";
export type Part = Schemas["SharedDefinition"];

/** What a list shows of a part; of a function, everything is known. */
export type Entry = { id: string; about: string; origin: string; function?: Schemas["FunctionInfo"] };

const readers: Record<Kind, () => Promise<Entry[]>> = {
  blocks: async () => (await read(api.GET("/api/v1/blocks"))).items.map(toEntry),
  agents: async () => (await read(api.GET("/api/v1/agents"))).items.map(toEntry),
  tools: async () => (await read(api.GET("/api/v1/tools"))).items.map(toEntry),
  functions: async () => {
    const { items } = await read(api.GET("/api/v1/functions"));
    return items.map((item) => ({
      id: item.id,
      about: item.description,
      origin: item.is_built_in ? t.library.builtIn : t.library.configured,
      function: item,
    }));
  },
  servers: async () => {
    const { items } = await read(api.GET("/api/v1/servers"));
    return items.map(({ name, target }) => ({
      id: name,
      about: target ?? "",
      origin: t.library.configured,
    }));
  },
};

export function listQuery(kind: Kind) {
  return queryOptions({ queryKey: ["library", kind], queryFn: readers[kind] });
}

function toEntry(part: Part): Entry {
  const { description, name } = part.definition as { description?: unknown; name?: unknown };
  const text = [description, name].find((one) => typeof one === "string");
  return { id: part.id, about: (text as string | undefined) ?? "", origin: originOf(part) };
}

export function originOf(part: Part): string {
  if (part.is_built_in) return t.library.builtIn;
  return part.is_shared ? t.library.shared : t.library.own;
}

/** A part with the tag of its content. */
export async function readPart(kind: StoredKind, id: string): Promise<{ part: Part; tag: string | null }> {
  // Read as text, so that no number is rounded.
  const params = { params: { path: { id } }, parseAs: "text" } as const;
  const answer = await (kind === "blocks"
    ? api.GET("/api/v1/blocks/{id}", params)
    : kind === "agents"
      ? api.GET("/api/v1/agents/{id}", params)
      : api.GET("/api/v1/tools/{id}", params));
  const text = await read<string>(Promise.resolve(answer));
  return { part: parseJson(text) as unknown as Part, tag: answer.response.headers.get("etag") };
}

/** Stores a part if its content is still that of `tag`; without a tag only if it does not exist. */
export async function storePart(kind: StoredKind, id: string, definition: unknown, tag: string | null) {
  const headers: Record<string, string> = tag ? { "If-Match": tag } : { "If-None-Match": "*" };
  const request = { params: { path: { id } }, body: definition as never, headers };
  return read(
    kind === "blocks"
      ? api.PUT("/api/v1/blocks/{id}", request)
      : kind === "agents"
        ? api.PUT("/api/v1/agents/{id}", request)
        : api.PUT("/api/v1/tools/{id}", request),
  );
}

export async function deletePart(kind: StoredKind, id: string) {
  const params = { params: { path: { id } } };
  return read(
    kind === "blocks"
      ? api.DELETE("/api/v1/blocks/{id}", params)
      : kind === "agents"
        ? api.DELETE("/api/v1/agents/{id}", params)
        : api.DELETE("/api/v1/tools/{id}", params),
  );
}

export async function readVersions(kind: StoredKind, id: string) {
  const params = { params: { path: { id } } };
  const list = await read(
    kind === "blocks"
      ? api.GET("/api/v1/blocks/{id}/versions", params)
      : kind === "agents"
        ? api.GET("/api/v1/agents/{id}/versions", params)
        : api.GET("/api/v1/tools/{id}/versions", params),
  );
  return list.items;
}

export async function readVersion(kind: StoredKind, id: string, version: number): Promise<Part> {
  const params = { params: { path: { id }, query: { version } }, parseAs: "text" } as const;
  const text = await read<string>(
    kind === "blocks"
      ? api.GET("/api/v1/blocks/{id}", params)
      : kind === "agents"
        ? api.GET("/api/v1/agents/{id}", params)
        : api.GET("/api/v1/tools/{id}", params),
  );
  return parseJson(text) as unknown as Part;
}
