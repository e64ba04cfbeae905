// Items of AnythingLLM's community hub, and replies of its API: a flow inside of other data, in the hub as text. A flow that is
// edited here is taken out, as `flowloom import` does (`unwrap_item` in crates/formats/src/flow/mod.rs).
import { formatJson, type Json, parseJson } from "../../api/json";
import { isRecord } from "../../ui/value";

/** The flow in a text that is such an item; any other text as it is. */
export function unwrapFlow(text: string): string {
  const flow = findFlow(readObject(text));
  return flow ? `${formatJson(flow)}\n` : text;
}

function findFlow(whole: { [key: string]: Json } | undefined): Json | undefined {
  const item = whole && isRecord(whole.item ?? null) ? (whole.item as { [key: string]: Json }) : whole;
  const wrapped = item?.flow;
  if (item === undefined || wrapped === undefined) return undefined;
  const flow = typeof wrapped === "string" ? readObject(wrapped) : isRecord(wrapped) ? wrapped : undefined;
  const config = flow && isRecord(flow.config ?? null) ? (flow.config as { [key: string]: Json }) : flow;
  if (!config || !Array.isArray(config.steps)) return undefined;
  const name = typeof wrapped === "string" ? item.name : (flow?.name ?? item.name);
  return typeof name === "string" ? { ...config, name } : config;
}

function readObject(text: string): { [key: string]: Json } | undefined {
  try {
    const value = parseJson(text);
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
