// The permissions of the key of this tab, so that a place shows what is not possible before the user works for it.
import { queryOptions, useQuery } from "@tanstack/react-query";
import { api, read } from "./client";

export type Scope = "read" | "run" | "write" | "admin";

export const callerQuery = queryOptions({
  queryKey: ["caller"],
  queryFn: () => read(api.GET("/api/v1/caller")),
  staleTime: 60_000,
  retry: false,
});

/** Whether the key permits something. Until that is known, everything is offered; the server decides anyway. */
export function useMay(scope: Scope): boolean {
  const { data } = useQuery(callerQuery);
  return data === undefined || data.scopes.includes(scope);
}
