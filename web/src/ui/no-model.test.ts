import { expect, test, vi } from "vitest";

test("a model is usable with a key, on this machine, or if it answers nearby", async () => {
  vi.stubGlobal("document", { baseURI: "http://localhost/" });
  const { hasUsableModel } = await import("./no-model");
  const lacking = { name: "openai", key_env: "OPENAI_API_KEY", problem: "needs a key", probed: false };
  const silent = { name: "ollama", key_env: null, problem: null, probed: true };
  const none = { default: null, files: [], providers: [lacking, silent] };
  expect(hasUsableModel(none)).toBe(false);
  expect(hasUsableModel({ ...none, default: "ollama:llama" })).toBe(true);
  expect(hasUsableModel({ ...none, default: "openai:gpt" })).toBe(false);
  expect(hasUsableModel({ ...none, providers: [{ ...lacking, problem: null }] })).toBe(true);
  expect(hasUsableModel({ ...none, providers: [{ ...silent, models: ["llama"] }] })).toBe(true);
  expect(hasUsableModel({ ...none, providers: [{ ...silent, models: [] }] })).toBe(false);
  expect(hasUsableModel({ ...none, default: "scripted:echo" })).toBe(true);
  const file = { model: "local:small", bytes: 1 };
  expect(hasUsableModel({ ...none, files: [file] })).toBe(true);
  expect(hasUsableModel({ ...none, default: "local:small", files: [{ ...file, problem: "cut" }] })).toBe(
    false,
  );
});
