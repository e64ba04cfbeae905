// The inputs of a schedule for people.
import { formatJson, type Json } from "../../api/json";

/** The inputs in one line; undefined if there are none. */
export function describeInputs(inputs: Json): string | undefined {
  if (typeof inputs === "string") return inputs.trim() || undefined;
  if (inputs === null || (typeof inputs === "object" && Object.keys(inputs).length === 0)) return undefined;
  return formatJson(inputs).replace(/\s+/g, " ");
}
