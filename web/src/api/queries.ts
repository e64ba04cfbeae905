// What the places read from the server.
import { queryOptions } from "@tanstack/react-query";
import { nameGraph } from "../run/graph";
import { api, read, readExactly } from "./client";
import type { Json } from "./json";

/** Lists of runs are asked for again after this time, while the page is visible. */
const REFRESH_MS = 3000;

export const workflowsQuery = queryOptions({
  queryKey: ["workflows"],
  queryFn: async () => (await read(api.GET("/api/v1/workflows"))).items,
});

/** The workflows that were deleted. A workflow may be called "deleted", so the key is not below that of workflows. */
export const deletedWorkflowsQuery = queryOptions({
  queryKey: ["deleted-workflows"],
  queryFn: async () => (await read(api.GET("/api/v1/deleted-workflows"))).items,
  // What stores a workflow again is in many places.
  refetchOnMount: "always",
});

/** Servers nearby are not asked more often than this. */
const MODELS_FRESH_MS = 10_000;

/** The models of the server, which asks those nearby. */
export const modelsQuery = queryOptions({
  queryKey: ["models"],
  staleTime: MODELS_FRESH_MS,
  queryFn: () => read(api.GET("/api/v1/models")),
});

export function workflowQuery(id: string) {
  return queryOptions({
    queryKey: ["workflows", id],
    queryFn: () => read(api.GET("/api/v1/workflows/{id}", { params: { path: { id } } })),
  });
}

export type RunsFilter = { status?: string; workflow?: string; limit?: number };

export function runsQuery(filter: RunsFilter) {
  return queryOptions({
    queryKey: ["runs", "list", filter],
    queryFn: () => read(api.GET("/api/v1/runs", { params: { query: filter } })),
    refetchInterval: REFRESH_MS,
  });
}

/** A run with its result and the steps that wait for a person. */
export function runQuery(run: string) {
  return queryOptions({
    queryKey: ["runs", "one", run],
    queryFn: () => read(api.GET("/api/v1/runs/{id}", { params: { path: { id: run } } })),
  });
}

/** The graph of the definition that a run executes. It does not change. */
export function runGraphQuery(run: string) {
  return queryOptions({
    queryKey: ["runs", "graph", run],
    queryFn: async () =>
      nameGraph(await read(api.GET("/api/v1/runs/{id}/graph", { params: { path: { id: run } } }))),
    staleTime: Number.POSITIVE_INFINITY,
  });
}

/** A request that a step sent. */
export type StepRequest = { attempt: number; request: { [field: string]: Json } };

/** What the record of a run has of a step: what it sent, and its prompt in the definition if it has one. */
export type RecordedStep = { path: string; prompt?: string | null; requests: StepRequest[] };

/** A step, as far as it is known. What the record has of it changes with its attempts and its phase. */
type StepKey = { path: string; attempts?: number; phase?: string };

export function stepQuery(run: string, { path, attempts, phase }: StepKey) {
  return queryOptions({
    queryKey: ["runs", "step", run, path, attempts, phase],
    queryFn: ({ signal }) => readStep(run, path, signal),
    staleTime: Number.POSITIVE_INFINITY,
  });
}

async function readStep(run: string, path: string, signal: AbortSignal): Promise<RecordedStep> {
  const address = `api/v1/runs/${encodeURIComponent(run)}/steps?path=${encodeURIComponent(path)}`;
  // The answer has the steps within this one, too.
  const { steps } = (await readExactly(address, signal)) as { steps: RecordedStep[] };
  return steps.find((one) => one.path === path) ?? { path, requests: [] };
}

/** The runs that wait for a person: those with a question, and those with an uncertain effect. */
export const waitingQuery = queryOptions({
  queryKey: ["runs", "waiting"],
  queryFn: async () => {
    const pages = await Promise.all(
      (["waiting", "uncertain"] as const).map((status) =>
        read(api.GET("/api/v1/runs", { params: { query: { status, limit: 100 } } })),
      ),
    );
    return pages.flatMap((page) => page.items).sort((one, other) => one.created_at - other.created_at);
  },
  refetchInterval: REFRESH_MS,
});
