// The tests of the project, and what they found when they ran last on this page.
import { queryOptions, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, read } from "../../api/client";
import type { Result } from "./of-workflow";

export const testsQuery = queryOptions({
  queryKey: ["tests"],
  queryFn: async () => (await read(api.GET("/api/v1/tests"))).items,
  retry: false,
});

/** The server keeps no results, so the page remembers those that it has seen. */
const resultsQuery = queryOptions({
  queryKey: ["test-results"],
  queryFn: () => new Map<string, Result>(),
  staleTime: Number.POSITIVE_INFINITY,
  gcTime: Number.POSITIVE_INFINITY,
  structuralSharing: false,
});

/** The last result of each test, by its file, and how new ones are added. */
export function useTestResults() {
  const queries = useQueryClient();
  const { data } = useQuery(resultsQuery);
  const add = (items: readonly Result[]) =>
    queries.setQueryData(
      resultsQuery.queryKey,
      (before) => new Map([...(before ?? []), ...items.map((item) => [item.file, item] as const)]),
    );
  return { results: data ?? new Map<string, Result>(), add };
}
