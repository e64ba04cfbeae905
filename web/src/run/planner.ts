// What the planner has done so far: the fold of the progress events of its run (docs/author.md).
import type { Json } from "../api/json";
import type { Phase } from "./fold";
import type { Graph, NodeState } from "./graph";
import type { RunRecord } from "./record";

export type BlockState = "wanted" | "found" | "missing" | "writing" | "repaired" | "passed" | "failed";

/** A version of a block, and the results of its trials. */
export type BlockVersion = { source: string | undefined; problem: string | undefined };

export type PlannedBlock = {
  id: string;
  description: string;
  state: BlockState;
  needs: string[];
  score?: number;
  versions: BlockVersion[];
  at: number;
};

export type Stage = { name: string; status: "running" | "done" | "skipped" | "failed"; message: string };

/** A node of the rehearsal. */
export type Rehearsed = {
  id: string;
  block: string;
  status: string;
  output: Json | undefined;
  mocked: string | undefined;
};

export type Wired = { id: string; block: string; needs: string[] };

export type Planner = {
  intent: string;
  stages: Stage[];
  blocks: PlannedBlock[];
  nodes: Wired[];
  rehearsed: Rehearsed[];
  notifications: Json[];
  /** The id of the stored pipeline. */
  pipeline: string | undefined;
  missing: string[];
};

type Fields = { [name: string]: Json };

/** Folds the events of a planner's run. */
export function foldPlanner(records: readonly RunRecord[]): Planner {
  const planner: Planner = {
    intent: "",
    stages: [],
    blocks: [],
    nodes: [],
    rehearsed: [],
    notifications: [],
    pipeline: undefined,
    missing: [],
  };
  for (const record of records) {
    if (record.event === "progress")
      applyEvent(planner, record.data.name, toFields(record.data.data), record.at);
  }
  return planner;
}

function applyEvent(planner: Planner, name: string, data: Fields, at: number): void {
  const block = findBlock(planner, toText(data.suggested_id) || toText(data.block_id));
  switch (name) {
    case "start":
      planner.intent = toText(data.intent);
      break;
    case "stage":
      setStage(planner, data, toText(data.message));
      break;
    case "stage_result":
      setStage(planner, data, undefined);
      applyResult(planner, data, at);
      break;
    case "search_found":
      if (block)
        Object.assign(block, { state: "found", score: Number(data.score), id: toText(data.block_id), at });
      break;
    case "search_missing":
      if (block) Object.assign(block, { state: "missing", at });
      break;
    case "creating_block":
      if (block) Object.assign(block, { state: "writing", at });
      break;
    case "block_created": {
      const definition = toFields(data.block);
      const source = toText(definition.source_code) || toText(definition.prompt_template) || undefined;
      block?.versions.push({ source, problem: undefined });
      break;
    }
    case "block_test_failed":
      if (block) {
        const version = block.versions.at(-1);
        if (version) version.problem = toText(data.error);
        block.state = "repaired";
      }
      break;
    case "block_test_passed":
      if (block) block.state = "passed";
      break;
    case "block_create_failed":
      if (block) block.state = "failed";
      break;
    case "complete":
      planner.pipeline = toText(toFields(data.pipeline).id) || undefined;
      break;
    case "error":
      planner.missing = toList(data.missing_blocks).map(toText);
      for (const stage of planner.stages) if (stage.status === "running") stage.status = "failed";
      break;
  }
}

function applyResult(planner: Planner, data: Fields, at: number): void {
  if (Array.isArray(data.required_blocks)) {
    planner.blocks = data.required_blocks.map(toFields).map((wanted) => ({
      id: toText(wanted.suggested_id),
      description: toText(wanted.description),
      state: "wanted",
      needs: toList(wanted.depends_on).map(toText),
      versions: [],
      at,
    }));
  }
  const pipeline = toFields(data.pipeline_json);
  if (!Array.isArray(pipeline.nodes)) return;
  const edges = toList(pipeline.edges).map(toFields);
  planner.nodes = pipeline.nodes.map(toFields).map((node) => ({
    id: toText(node.id),
    block: toText(node.block_id),
    needs: edges.filter((edge) => edge.to === node.id).map((edge) => toText(edge.from)),
  }));
  const tried = toFields(data.tried);
  planner.rehearsed = toList(tried.nodes)
    .map(toFields)
    .map((node) => ({
      id: toText(node.node_id),
      block: toText(node.block_id),
      status: toText(node.status),
      output: node.output,
      mocked: toText(node.mocked) || undefined,
    }));
  planner.notifications = toList(tried.notifications);
}

function setStage(planner: Planner, data: Fields, message: string | undefined): void {
  const name = toText(data.stage);
  const status = toText(data.status) as Stage["status"];
  const known = planner.stages.find((stage) => stage.name === name);
  if (known) Object.assign(known, { status, message: message ?? known.message });
  else planner.stages.push({ name, status, message: message ?? "" });
}

/** The block with this id. One that was found has the id of the existing block. */
function findBlock(planner: Planner, id: string): PlannedBlock | undefined {
  return id === "" ? undefined : planner.blocks.find((block) => block.id === id);
}

/** The path of the nodes of a pipeline. */
export const PIPELINE_NODES = "/nodes~1";

const PHASES: Record<BlockState, Phase> = {
  wanted: "reset",
  found: "finished",
  missing: "waiting",
  writing: "running",
  repaired: "running",
  passed: "finished",
  failed: "failed",
};

/** The graph of the pipeline: of the wanted blocks at first, of the connected ones in the end. */
export function drawPlanner(planner: Planner): { graph: Graph; states: Map<number, NodeState> } {
  const isWired = planner.nodes.length > 0;
  const parts = isWired
    ? planner.nodes.map(({ id, block, needs }) => ({ id, title: block, needs }))
    : planner.blocks.map(({ id, needs }) => ({ id, title: id, needs }));
  const places = new Map(parts.map((part, at) => [part.id, at]));
  const edges = parts.flatMap((part, to) =>
    part.needs.flatMap((need) => {
      const from = places.get(need);
      return from === undefined ? [] : [{ from, to, label: "" }];
    }),
  );
  const blocks = new Map(planner.blocks.map((block) => [block.id, block]));
  const states = new Map<number, NodeState>();
  parts.forEach((part, at) => {
    const block = blocks.get(part.title);
    const phase = isWired ? "finished" : PHASES[block?.state ?? "wanted"];
    states.set(at, { phase, count: 1, startedAt: block?.at ?? 0, endedAt: block?.at ?? 0, warnings: 0 });
  });
  // The steps of a pipeline have these paths, so that the graph of a dry run is found by them, too.
  const nodes = parts.map(({ id, title }) => ({ path: `${PIPELINE_NODES}/${id}`, title, kind: "call" }));
  return { graph: { nodes, edges }, states };
}

function toFields(value: Json | undefined): Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}

function toList(value: Json | undefined): Json[] {
  return Array.isArray(value) ? value : [];
}

function toText(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}
