import { expect, test } from "vitest";
import { findModelProblem } from "../api/models";
import { findModels, listModels } from "./models";

const NAMES = [
  { name: "fast", detail: "alias of house:small" },
  { name: "local:tiny", detail: "on this machine" },
  { name: "house:small", detail: "the default model" },
  { name: "openai:gpt-5", detail: "" },
  { name: "mistral:large", detail: "" },
];
const LIST = {
  default: "house:small",
  local: ["local:tiny"],
  files: [],
  providers: [
    { name: "openai", problem: "set OPENAI_API_KEY", probed: false },
    { name: "mistral", key_env: "MISTRAL_API_KEY", probed: false },
    { name: "ollama", models: ["qwen3"], probed: true },
  ],
};

test("what is configured comes first, and what lacks a key last", () => {
  const choices = listModels(NAMES as never, LIST as never);
  expect(choices.map(({ name, group }) => `${group} ${name}`)).toEqual([
    "configured fast",
    "configured house:small",
    "local local:tiny",
    "local ollama:qwen3",
    "known mistral:large",
    "known openai:gpt-5",
  ]);
  expect(choices.at(-1)?.problem).toBe("set OPENAI_API_KEY");
});

test("a model that was typed lacks what its provider lacks", () => {
  const problemOf = (name: string) => findModelProblem(name, LIST as never);
  expect(problemOf("openai:gpt-9-preview")).toBe("set OPENAI_API_KEY");
  expect([problemOf("fast"), problemOf("mistral:large"), problemOf("openai")]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});

test("names are enough if the models of the server are not known", () => {
  expect(listModels(NAMES as never, undefined)).toHaveLength(NAMES.length);
  expect(listModels(undefined, undefined)).toEqual([]);
});

test("a model is found by words of its name and of its description", () => {
  const choices = listModels(NAMES as never, LIST as never);
  expect(findModels(choices, "ali small").map(({ name }) => name)).toEqual(["fast"]);
  expect(findModels(choices, "")).toHaveLength(choices.length);
});
