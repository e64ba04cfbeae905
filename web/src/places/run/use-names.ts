// The names that the definition of a run gives its steps, as its graph shows them.
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { runGraphQuery } from "../../api/queries";
import { lineOf } from "../../run/graph";
import type { Names } from "../../run/rows";

export function useNames(run: string): Names {
  const { data: graph } = useQuery(runGraphQuery(run));
  return useMemo(() => new Map(graph?.nodes.map((node) => [node.path, lineOf(node)])), [graph]);
}
