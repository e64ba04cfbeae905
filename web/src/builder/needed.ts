// What a part refers to in its definition: the agent of a node, and the block that it is made of.
import type { Edit, Inspection, Part, Source } from "./definition";
import { END } from "./siblings";

/** The keys with which a node names a part of a list. */
const REFERENCES: Record<string, readonly string[]> = {
  agents: ["agentId", "agent_id"],
  blocks: ["block_id", "blockId"],
};

/** The parts of a definition that a node refers to. */
export function findNeeded(inspection: Inspection, part: Part): Part[] {
  if (part.list !== "nodes") return [];
  const node = part.value as Record<string, unknown>;
  const isNamed = ({ list, value }: Part) => {
    const { id, agentId } = value as Record<string, unknown>;
    const names = REFERENCES[list]?.map((key) => node[key]).filter((name) => typeof name === "string") ?? [];
    return names.some((name) => name === id || (list === "agents" && name === agentId));
  };
  return inspection.parts.filter(isNamed);
}

type Named = { list: string; id: string };

/** Whether a definition has a part of this id, in its entry or in a file. */
function hasPart({ list, id }: Named, inspection: Inspection, source: Source): boolean {
  const isPart = inspection.parts.some(
    (part) => part.list === list && (part.value as Record<string, unknown>).id === id,
  );
  const start = `${list}/${id}`;
  return (
    isPart ||
    Object.keys(source.files).some((file) => file.startsWith(`${start}/`) || file === `${start}.json`)
  );
}

/**
 * The changes that add the parts which a pasted one refers to, unless the definition has them, and the ids of those for
 * which it has no list.
 */
export function addNeeded<N extends Named & { text: string }>(
  needs: readonly N[],
  inspection: Inspection,
  source: Source,
): { edits: Edit[]; left: string[] } {
  const missing = needs.filter((one) => !hasPart(one, inspection, source));
  const hasList = ({ list }: N) => inspection.lists.some(({ name }) => name === list);
  const edits = missing
    .filter(hasList)
    .map(({ list, text }): Edit => ({ do: "paste", list: [list], at: END, text }));
  return { edits, left: missing.filter((one) => !hasList(one)).map(({ id }) => id) };
}
