// What is known about models from the list of the server.
import type { Schemas } from "./client";

type Known = Partial<Pick<Schemas["ModelList"], "providers" | "files">>;

/** Why a model cannot be used as things are; undefined if nothing is known against it. */
export function findModelProblem(name: string, known: Known | undefined): string | undefined {
  const file = known?.files?.find((one) => one.model === name);
  const provider = known?.providers?.find((one) => name.startsWith(`${one.name}:`));
  return file?.problem ?? provider?.problem ?? undefined;
}
