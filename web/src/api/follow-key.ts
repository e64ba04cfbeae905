// What happens to the loaded data when the viewer has entered another key.
import type { QueryClient } from "@tanstack/react-query";
import { callerQuery } from "./caller";
import { nameOwner, type Owner } from "./owner";

/** Loads everything again. Data of another user is forgotten first; that of the same user stays until the new data is there. */
export async function followKey(queries: QueryClient): Promise<void> {
  const before = queries.getQueryData<Owner>(callerQuery.queryKey);
  const now = await queries.fetchQuery({ ...callerQuery, staleTime: 0 }).catch(() => undefined);
  const isOther = before !== undefined && now !== undefined && nameOwner(before) !== nameOwner(now);
  await (isOther ? queries.resetQueries() : queries.invalidateQueries());
}
