// How a part is called: the same in the list, in the graphs and in the forms. Its name or its type comes first; its id, or what
// kind of part it is, second.
import { t } from "../strings";
import { type IconName, kindIcon } from "../ui/icon";
import { labelOf } from "./context";
import type { Inspection, Part } from "./definition";

/** What parts do in the words of the engine, by their kind. */
const ENGINE_KINDS: Record<string, string> = {
  start: "assign",
  llmInstruction: "generate",
  apiCall: "http",
  webScraping: "scrape",
  GenText: "generate",
  GenObject: "generate",
  Cond: "branch",
  AGENT: "agent",
  HUMAN_HANDOFF: "ask",
  TOOL_EXECUTOR: "tools",
  llm: "generate",
  sequential: "generate",
  fanout: "generate",
  collect: "generate",
  conditional: "generate",
  loop: "generate",
  fetch: "scrape",
};

/** What the functions that steps call do, by the start of their ids. */
const FUNCTION_KINDS: [string, string][] = [
  ["agent::", "generate"],
  ["human::", "ask"],
  ["memory::", "memory"],
  ["tool::", "call"],
];

/** What a part does in the words of the engine. */
export function kindOf(part: Part): string {
  const called = fieldsOf(part).functionId;
  if (typeof called === "string") {
    return FUNCTION_KINDS.find(([start]) => called.startsWith(start))?.[1] ?? "call";
  }
  return blockOf(part) ? "block" : (ENGINE_KINDS[part.kind] ?? part.kind);
}

export function iconOf(part: Part): IconName {
  return kindIcon(kindOf(part));
}

/** The name of a kind of parts. */
export function nameKind(kind: string): string {
  return t.build.kinds[kind] ?? labelOf(kind);
}

/** The icon of a kind of parts. */
export function iconOfKind(kind: string): IconName {
  return kindIcon(ENGINE_KINDS[kind] ?? kind);
}

/** The name of a part for people. A connection is known by its ends, and a block of a flow by its type. */
export function titleOf(part: Part, inspection?: Inspection): string {
  if (part.list === "edges") {
    const name = (id: string | undefined) => (inspection && nodeTitles(inspection).get(id)) ?? id;
    const from = name(textOf(part, "from", "sourceNodeId", "source_node_id")) ?? "?";
    return `${from} → ${name(textOf(part, "to", "targetNodeId", "target_node_id")) ?? t.graphEnd}`;
  }
  const block = blockOf(part);
  if (block) return block;
  if (part.title && part.title !== part.kind) return part.title;
  return nameKind(part.kind);
}

/**
 * What a part shows next to its name: the condition of a connection, the id of a block's node, the variable that a block of
 * a flow sets or else what it is for, or what it does. It differs from the name.
 */
export function subtitleOf(part: Part): string {
  if (part.list === "edges") {
    return textOf(part, "conditionValue", "condition_value") ?? labelOf(part.kind);
  }
  if (blockOf(part)) return part.title;
  const { functionId, mode } = fieldsOf(part);
  const kind = t.kind(kindOf(part));
  if (typeof functionId !== "string") {
    const label = nameKind(part.kind);
    return label === titleOf(part) ? (purposeOf(part) ?? kind) : label;
  }
  return typeof mode === "string" && mode !== "sequential"
    ? `${kind} · ${(t.build.values[mode] ?? mode).toLowerCase()}`
    : kind;
}

/** The fields of a block of a flow that distinguish it from others of its type. */
const PURPOSES = ["resultVariable", "responseVariable", "instruction", "url"];

/** The text that distinguishes blocks of a flow of one type: the variables set, the instruction, or the address. */
function purposeOf(part: Part): string | undefined {
  const config = (fieldsOf(part).config ?? {}) as Record<string, unknown>;
  const rows = Array.isArray(config.variables) ? (config.variables as { name?: unknown }[]) : [];
  const names = rows.map((row) => row?.name).filter((name) => typeof name === "string" && name !== "");
  if (names.length > 0) return names.join(", ");
  const shown = PURPOSES.map((key) => config[key]).find((one) => typeof one === "string" && one !== "");
  return shown as string | undefined;
}

/** The name of a node with its id, for choices: several nodes may have the same block. */
export function nameNodeWithId(part: Part): string {
  return blockOf(part) ? `${part.title} · ${titleOf(part)}` : titleOf(part);
}

/** The block that a node of a pipeline is made of. */
function blockOf(part: Part): string | undefined {
  return part.list === "nodes" ? textOf(part, "block_id", "blockId") : undefined;
}

/** The titles of the nodes by id, found once for each inspection. */
function nodeTitles(inspection: Inspection): Map<unknown, string | undefined> {
  const known = titles.get(inspection);
  if (known) return known;
  const nodes = inspection.parts.filter((part) => part.list === "nodes");
  const found = new Map(nodes.map((part) => [fieldsOf(part).id, part.title]));
  titles.set(inspection, found);
  return found;
}

const titles = new WeakMap<Inspection, Map<unknown, string | undefined>>();

/** The first of several fields of a part that is a text. */
function textOf(part: Part, ...keys: string[]): string | undefined {
  const found = keys.map((key) => fieldsOf(part)[key]).find((one) => typeof one === "string" && one !== "");
  return found as string | undefined;
}

function fieldsOf(part: Part): Record<string, unknown> {
  return (part.value ?? {}) as Record<string, unknown>;
}
