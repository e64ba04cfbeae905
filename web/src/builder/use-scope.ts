// What the fields of the selected part can name: variables with their last values, and things outside of the definition.
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, read, readExactly } from "../api/client";
import type { Json } from "../api/json";
import { runsQuery } from "../api/queries";
import {
  analyze,
  type Inspection,
  type NameLists,
  type Part,
  type Source,
  type Variable,
} from "./definition";

import { inputsOf } from "./file-form";
import { withSeenFields } from "./seen-fields";

/** Names outside of a definition change rarely. */
const NAMES_FRESH_MS = 30_000;

type ScopeInput = {
  source: Source;
  format: string | undefined;
  workflow: string | undefined;
  inspection: Inspection | undefined;
  part: Part | undefined;
};

export function useScope({ source, format, workflow, inspection, part }: ScopeInput) {
  const at = part?.start ?? source.files[source.entry]?.length ?? 0;
  const names = useQuery({
    queryKey: ["names", format],
    staleTime: NAMES_FRESH_MS,
    queryFn: async () => (await analyze(source, format, { what: "names" })).names ?? undefined,
  });
  const variables = useQuery({
    queryKey: ["variables", format, source, at, part?.list],
    enabled: inspection !== undefined && !inspection.problem,
    placeholderData: (before) => before,
    queryFn: async () => (await analyze(source, format, { what: "variables", at })).variables,
  });
  const last = useLastValues(workflow, inspection);
  const own = useMemo(() => listOwn(inspection), [inspection]);
  const shown = part?.list === "blocks" ? inputsOf(part.value) : (variables.data ?? []);
  const offered = useMemo(() => withSeenFields(withoutOwn(shown, part), last), [shown, part, last]);
  return { names: names.data as NameLists | undefined, variables: offered, last, own };
}

/** A part cannot refer to its own result. */
function withoutOwn(variables: Variable[], part: Part | undefined): Variable[] {
  const results = part ? resultNames(part) : [];
  return variables.filter((variable) => !results.includes(variable.name));
}

/** The names under which the result of a part is known. */
function resultNames(part: Part): string[] {
  const value = part.value as Record<string, unknown>;
  const config = (value.config ?? {}) as Record<string, unknown>;
  const found = [config.resultVariable, config.responseVariable, value.outputVar, value.as];
  const named = part.list === "nodes" ? [...found, value.id] : found;
  return named.filter((name): name is string => typeof name === "string" && name !== "");
}

/** The names that a definition gives to its own things, by what they are. */
function listOwn(inspection: Inspection | undefined): Record<string, string[]> {
  const parts = inspection?.parts ?? [];
  const of = (list: string, ...keys: string[]) =>
    parts
      .filter((part) => part.list === list)
      .map((part) =>
        keys
          .map((key) => (part.value as Record<string, unknown>)[key])
          .find((one) => typeof one === "string"),
      )
      .filter((name): name is string => typeof name === "string");
  return {
    node: of("nodes", "id"),
    block: of("blocks", "id"),
    agent: of("agents", "id", "agentId"),
    destination: [...of("nodes", "nodeName", "node_name", "id"), "END"],
  };
}

/** The values of the newest run, by the names of variables. */
function useLastValues(
  workflow: string | undefined,
  inspection: Inspection | undefined,
): ReadonlyMap<string, Json> {
  const runs = useQuery({
    ...runsQuery({ workflow: workflow ?? "", limit: 1 }),
    enabled: workflow !== undefined,
  });
  const run = runs.data?.items[0]?.run_id;
  const steps = useQuery({
    queryKey: ["runs", "steps", run, runs.data?.items[0]?.status],
    enabled: run !== undefined,
    queryFn: () => read(api.GET("/api/v1/runs/{id}/steps", { params: { path: { id: run as string } } })),
  });
  const known = useQuery({
    queryKey: ["runs", "variables", run, runs.data?.items[0]?.status],
    enabled: run !== undefined,
    queryFn: () => readExactly(`api/v1/runs/${run}/variables`),
  });
  return useMemo(() => {
    const outputs = new Map<string, Json>();
    for (const step of steps.data?.steps ?? [])
      outputs.set(step.path.replaceAll(/\[\d+\]|#\d+/g, ""), step.output as Json);
    // Inputs are variables, too.
    const { variables = {} } = (known.data ?? {}) as { variables?: { [name: string]: Json } };
    const values = new Map<string, Json>(Object.entries(variables));
    for (const part of inspection?.parts ?? []) {
      const output = part.step ? outputs.get(part.step) : undefined;
      if (output === undefined || output === null) continue;
      for (const name of resultNames(part)) values.set(name, output);
    }
    return values;
  }, [steps.data, known.data, inspection]);
}
