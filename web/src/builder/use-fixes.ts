// The fixes of problems: what `check --fix` would do, one by one or all together.
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { ByteMap } from "../places/workflow/bytes";
import type { ServerProblem } from "../places/workflow/use-draft";
import { type Analysis, analyze, type Source } from "./definition";

type Fix = Analysis["fixes"][number];

export type Fixes = {
  /** The text of the entry with the fix of a problem; undefined if it has none. */
  fixOf: (problem: ServerProblem) => string | undefined;
  /** The text of the entry with all safe fixes. */
  all: string | undefined;
  count: number;
};

/** The fixes of a definition that was checked. `problems` are those of the same text. */
export function useFixes(source: Source, format: string | undefined, problems: ServerProblem[]): Fixes {
  const hasFix = problems.some((problem) => typeof problem.fix === "string");
  const text = source.files[source.entry] ?? "";
  const { data } = useQuery({
    queryKey: ["fixes", format, source],
    enabled: hasFix,
    queryFn: ({ signal }) => analyze(source, format, { what: "fixes" }, signal),
  });
  return useMemo(() => {
    const fixes = hasFix ? (data?.fixes ?? []) : [];
    return {
      fixOf: (problem) => {
        const fix = fixes.find((one) => one.code === problem.code && one.start === problem.start);
        return fix && applyFix(text, fix);
      },
      all: hasFix ? (data?.fixed ?? undefined) : undefined,
      count: fixes.filter((fix) => fix.is_safe).length,
    };
  }, [data, hasFix, text]);
}

function applyFix(text: string, fix: Fix): string {
  const map = new ByteMap(text);
  const changes = [...fix.changes].sort((one, other) => other.start - one.start);
  return changes.reduce((changed, change) => {
    const from = map.toUnit(change.start);
    return changed.slice(0, from) + change.text + changed.slice(map.toUnit(change.start + change.length));
  }, text);
}
