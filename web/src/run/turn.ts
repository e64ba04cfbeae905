// A run as a turn of a conversation: the messages, the calls of tools, and open questions to a person.
import type { Json } from "../api/json";
import type { RunState, StepState } from "./fold";
import { isFinal } from "./record";

export type TurnEntry =
  /** An answer of a model; `text` is undefined while it arrives. */
  | { kind: "said"; speaker: string; text: string | undefined; step: StepState }
  /** A call of a tool; `step` is undefined until the call starts. */
  | { kind: "called"; name: string; arguments: Json; step: StepState | undefined }
  /** An agent of a graph names the next one, or ends the conversation. */
  | { kind: "routed"; speaker: string; to: string | undefined }
  /** A question to a person, its answer once there is one, and uncertain effects. */
  | { kind: "asked" | "uncertain"; step: StepState };

type ToolCall = { name: string; arguments: Json };

/** The tools with which agents of graphs choose what comes next. */
const ROUTER = "router";
const END = "end";

/** The entries of a turn in order. */
export function listEntries(state: RunState): TurnEntry[] {
  const entries: TurnEntry[] = [];
  const isGraph = state.created?.format === "graph";
  let open: Extract<TurnEntry, { kind: "called" }>[] = [];
  for (const step of state.steps) {
    if (step.phase === "uncertain" && !isFinal(state.status)) entries.push({ kind: "uncertain", step });
    if (step.kind === "ask" || step.question) entries.push({ kind: "asked", step });
    if (step.kind === "generate" && isTurn(step.path)) {
      const answer = readAnswer(step.output);
      const speaker = speakerOf(step.path);
      if (answer.text !== "" || step.output === undefined) {
        const text = step.output === undefined ? undefined : answer.text;
        entries.push({ kind: "said", speaker, text, step });
      }
      const isRoute = (call: ToolCall) => isGraph && (call.name === ROUTER || call.name === END);
      for (const call of answer.calls.filter(isRoute)) {
        entries.push({
          kind: "routed",
          speaker,
          to: call.name === END ? undefined : firstText(call.arguments),
        });
      }
      open = answer.calls
        .filter((call) => !isRoute(call))
        .map((call) => ({ kind: "called", name: call.name, arguments: call.arguments, step: undefined }));
      entries.push(...open);
    }
    const called = open[toolIndex(step.path)];
    if (called) called.step = step;
  }
  return entries;
}

/** A file that came with a message; `picture` is the address of an image. */
export type SaidFile = { name: string; picture: string | undefined };

/** The message with which the person began the turn, and how many messages came before. */
export type Opening = { text: string; files: SaidFile[]; earlier: number };

export function readOpening(inputs: Json | undefined): Opening {
  const fields = isObject(inputs) ? inputs : {};
  const earlier = Array.isArray(fields.messages) ? fields.messages.length : 0;
  const parts = Array.isArray(fields.message) ? fields.message : [fields.message ?? ""];
  const text = parts.filter((part) => typeof part === "string").join("\n\n");
  const files = parts.flatMap((part) => (isObject(part) ? readFile(part.$file) : []));
  return { text, files, earlier };
}

function readFile(file: Json | undefined): SaidFile[] {
  if (!isObject(file) || typeof file.name !== "string") return [];
  const isPicture = typeof file.mime === "string" && /^image\/[a-z]+$/.test(file.mime);
  const picture = isPicture ? `data:${file.mime};base64,${file.base64}` : undefined;
  return [{ name: file.name, picture }];
}

/** Whether the path is that of an agent's answer. */
function isTurn(path: string): boolean {
  return /\/turn~1\[\d+\]$/.test(path) && !/\/tool~\d+\[\d+\]\//.test(path);
}

/** The number of the tool call with this path, or -1. */
function toolIndex(path: string): number {
  const found = /\/tool~1\[(\d+)\]$/.exec(path);
  return found ? Number(found[1]) : -1;
}

/** The node of a graph that speaks; empty for an agent that is alone. */
function speakerOf(path: string): string {
  const [, node = ""] = path.split("/");
  return node.startsWith("turn~") ? "" : node.replace(/#\d+$/, "");
}

function readAnswer(output: Json | undefined): { text: string; calls: ToolCall[] } {
  if (typeof output === "string") return { text: output, calls: [] };
  if (!isObject(output)) return { text: "", calls: [] };
  const calls = Array.isArray(output.tool_calls) ? output.tool_calls : [];
  return {
    text: typeof output.text === "string" ? output.text : "",
    calls: calls.flatMap((call) =>
      isObject(call) && typeof call.name === "string"
        ? [{ name: call.name, arguments: call.arguments ?? call.args ?? {} }]
        : [],
    ),
  };
}

function firstText(value: Json): string | undefined {
  return isObject(value) ? Object.values(value).find((part) => typeof part === "string") : undefined;
}

function isObject(value: Json | undefined): value is { [name: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
