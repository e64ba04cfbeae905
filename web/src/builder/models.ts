// The models that can be named: aliases and the default model, models of this machine and of servers nearby, and known
// ones, with what they lack.
import type { Schemas } from "../api/client";
import { findModelProblem } from "../api/models";
import type { NameLists } from "./definition";

export type ModelGroup = "configured" | "local" | "known";

export type ModelChoice = {
  name: string;
  group: ModelGroup;
  /** What it is, in a few words. */
  detail: string;
  /** Why it cannot be used as things are. */
  problem?: string | undefined;
};

type List = Partial<Pick<Schemas["ModelList"], "default" | "local" | "providers" | "files">>;

/** The models in the order in which they are offered. */
export function listModels(names: NameLists["models"] | undefined, list: List | undefined): ModelChoice[] {
  const providers = new Map((list?.providers ?? []).map((one) => [one.name, one]));
  const problemOf = (name: string) => findModelProblem(name, list);
  const choices = new Map<string, ModelChoice>();
  const add = (choice: ModelChoice) => {
    if (!choices.has(choice.name)) choices.set(choice.name, choice);
  };
  const local = new Set(list?.local ?? []);
  const known = names ?? [];
  for (const { name, detail } of known) {
    const isLocal = local.has(name) || name.startsWith("local:");
    const isConfigured = detail !== "" && !isLocal && detail !== undefined;
    if (isConfigured || name === list?.default) add({ name, group: "configured", detail: detail ?? "" });
  }
  for (const name of local) add({ name, group: "local", detail: "", problem: problemOf(name) });
  for (const [provider, { models }] of providers) {
    for (const model of models ?? []) add({ name: `${provider}:${model}`, group: "local", detail: provider });
  }
  for (const { name } of known) add({ name, group: "known", detail: "", problem: problemOf(name) });
  const place = (one: ModelChoice) => ORDER.indexOf(one.group) * 2 + (one.problem ? 1 : 0);
  return [...choices.values()].sort((one, other) => place(one) - place(other));
}

const ORDER: readonly ModelGroup[] = ["configured", "local", "known"];

/** The models whose name or description has every word of a text. */
export function findModels(choices: readonly ModelChoice[], text: string): ModelChoice[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return choices.filter((choice) => {
    const searched = `${choice.name} ${choice.detail}`.toLowerCase();
    return words.every((word) => searched.includes(word));
  });
}
