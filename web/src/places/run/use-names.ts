// The names that the definition of a run gives its steps, as its graph shows them.
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { runGraphQuery } from "../../api/queries";
import { nodeIdOf } from "../../run/graph";
import type { Names } from "../../run/rows";

export function useNames(run: string): Names {
  const { data: graph } = useQuery(runGraphQuery(run));
  return useMemo(() => new Map(graph?.nodes.map((node) => [node.path, nameNodeWithId(node)])), [graph]);
}

/** A node with its id, which errors name, if its title is another one. */
function nameNodeWithId(node: { path: string; title: string }): string {
  const id = nodeIdOf(node);
  return id === undefined ? node.title : `${id} · ${node.title}`;
}
