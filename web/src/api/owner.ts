// Who uses the page: what belongs to one user is not shown to the next one.
import type { Schemas } from "./client";

export type Owner = Pick<Schemas["CallerInfo"], "user" | "key">;

/** The user of the key. A key for any user counts as a separate user, and a server without keys has one viewer. */
export function nameOwner({ user, key }: Owner): string {
  if (user != null) return `user=${encodeURIComponent(user)}`;
  return key == null ? "anyone" : `key=${encodeURIComponent(key)}`;
}
