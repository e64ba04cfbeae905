// The source of a workflow while it is edited, with the answers of the server about it.
import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { ApiError, api, read, type Schemas } from "../../api/client";
import { spreadJson } from "../../api/json";
import { type Graph, nameGraph } from "../../run/graph";

export type Source = { entry: string; files: { [path: string]: string } };
export type ServerProblem = Schemas["Diagnostic"];

/** The text is checked after this time without a change. */
const CHECK_DELAY_MS = 250;
/** A file in the served folder can change on disk. */
const FILE_REFRESH_MS = 2000;

/** The stored source with its tag. */
export function useStoredSource(id: string, isFile: boolean) {
  return useQuery({
    queryKey: ["workflows", id, "source"],
    queryFn: async () => {
      const request = api.GET("/api/v1/workflows/{id}/source", { params: { path: { id } } });
      const source = (await read(request)) as Source;
      return { source, tag: (await request).response.headers.get("etag") };
    },
    refetchInterval: isFile ? FILE_REFRESH_MS : false,
  });
}

/** A value that follows another one after a pause. */
function useDelayed<Value>(value: Value, delay: number): Value {
  const [delayed, setDelayed] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setDelayed(value), delay);
    return () => clearTimeout(timer);
  }, [value, delay]);
  return delayed;
}

export type Judgement = {
  problems: ServerProblem[];
  graph: Graph | undefined;
  isChecking: boolean;
  isRefused: boolean;
  /** Why the problems or the graph of the text are not known, and how they are asked for again. */
  unknown: { error: Error; retry: () => void } | undefined;
};

/** The answer of the server about a source that is not stored. The last graph stays while the text does not compile. */
export function useJudgement(source: Source | undefined): Judgement {
  const checked = useDelayed(source, CHECK_DELAY_MS);
  const key = useMemo(() => JSON.stringify(checked), [checked]);
  const body = checked as never;
  const check = useQuery({
    queryKey: ["check", key],
    enabled: checked !== undefined,
    placeholderData: (before) => before,
    queryFn: () => read(api.POST("/api/v1/check", { body })),
  });
  const drawn = useQuery({
    queryKey: ["graph", key],
    enabled: checked !== undefined,
    placeholderData: (before) => before,
    queryFn: async () => {
      const graph = await read(api.POST("/api/v1/graph", { body }));
      return { graph: graph ? nameGraph(graph) : undefined };
    },
  });
  const [graph, setGraph] = useState<Graph>();
  const newest = drawn.data?.graph;
  useEffect(() => {
    if (newest) setGraph(newest);
  }, [newest]);
  const unanswered = [check, drawn].filter(({ isError, isFetching }) => isError && !isFetching);
  const [failed] = unanswered;
  const retry = () => unanswered.forEach(({ refetch }) => void refetch());
  return {
    unknown: failed?.error ? { error: failed.error, retry } : undefined,
    problems: check.data?.problems ?? [],
    isRefused: check.data?.is_refused ?? false,
    graph: newest ?? graph,
    isChecking: checked !== source || check.isFetching,
  };
}

/** The files of a source as one text. */
export function joinFiles(source: Source): string {
  const names = Object.keys(source.files).sort();
  return names.map((name) => (names.length > 1 ? `${name}\n` : "") + source.files[name]).join("\n");
}

/** The texts of a source for comparisons: JSON in one line is spread over several. */
export function toReadable(source: Source): string {
  const files = Object.entries(source.files).map(([name, text]) => [name, spreadJson(text)]);
  return joinFiles({ ...source, files: Object.fromEntries(files) });
}

/**
 * Stores a source and returns its tag. Throws an `ApiError` with the status 412 if someone else stored another one since
 * `tag`.
 */
export async function saveSource(
  id: string,
  source: Source,
  condition: { tag?: string | null; isNew?: boolean },
) {
  const header: Record<string, string> = {};
  if (condition.tag) header["If-Match"] = condition.tag;
  if (condition.isNew) header["If-None-Match"] = "*";
  const params = { path: { id }, query: { draft: true }, header } as never;
  const request = api.PUT("/api/v1/workflows/{id}", { params, body: source as never });
  await read(request);
  return (await request).response.headers.get("etag");
}

export function isConflict(error: unknown): boolean {
  return error instanceof ApiError && error.status === 412;
}
