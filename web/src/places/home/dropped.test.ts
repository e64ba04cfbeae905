import { expect, test } from "vitest";
import {
  chooseEntry,
  findOthers,
  guessFormat,
  isBinary,
  isJson,
  isObjectStart,
  placeCompanion,
  type Verdict,
  withoutCommonFolder,
} from "./dropped";

const verdicts: Record<string, Verdict> = {
  "agents/orders/systemPrompt.md": { format: "markdown", isRefused: false, problems: 0 },
  "notes.json": { format: null, isRefused: true, problems: 1 },
  "clerk.json": { format: "agent", isRefused: false, problems: 0 },
  "helpdesk.json": { format: "graph", isRefused: false, problems: 2 },
  "broken.json": { format: "graph", isRefused: true, problems: 1 },
};

test("among several files the workflow is the entry", async () => {
  const judge = async (path: string) => verdicts[path] ?? { format: null, isRefused: true, problems: 0 };
  const choose = async (paths: string[]) => (await chooseEntry(paths, judge))?.path;
  expect(await choose(Object.keys(verdicts))).toBe("helpdesk.json");
  expect(await choose(["clerk.json", "notes.json"])).toBe("clerk.json");
  expect(await choose(["notes.json", "x.txt"])).toBeUndefined();
});

test("two complete definitions are two workflows, and a part that is mentioned is none", () => {
  const whole = (format: string) => ({ format, isRefused: false, problems: 0 });
  const texts = new Map([
    ["one.json", '{"steps": []}'],
    ["two.json", '{"steps": []}'],
    ["main.mdx", '<Include file="part" />'],
    ["part.mdx", "Hello"],
    ["agents/a.json", "{}"],
    ["clerk.json", "{}"],
  ]);
  const judged = new Map([
    ["one.json", whole("steps")],
    ["two.json", whole("flow")],
    ["main.mdx", whole("markdown")],
    ["part.mdx", whole("markdown")],
    ["agents/a.json", whole("steps")],
    ["clerk.json", whole("agent")],
  ]);
  expect(findOthers("one.json", texts, judged)).toEqual(["two.json", "main.mdx"]);
});

test("the format of a broken text is guessed from what stands in it", () => {
  expect(guessFormat("a.json", '{"id": "a", "steps": [{"name": "x", "functionId": "agent::chat"')).toBe(
    "steps",
  );
  expect(guessFormat("a.json", '{"nodes": [{"id": "n1", "block_id": "filter"')).toBe("pipeline");
  expect(guessFormat("a.mdx", "{{#each")).toBe("markdown");
  expect(guessFormat("a.json", '{"hello": ')).toBeUndefined();
});

test("JSON that is cut off can be mended, and what is no text or no JSON cannot", () => {
  const texts = ['{"foo": [1,2', '{"foo": 1}', "notes"];
  expect(texts.map(isObjectStart)).toEqual([true, true, false]);
  expect(texts.map(isJson)).toEqual([false, true, false]);
  expect([isBinary("a\0b"), isBinary("\uFFFDPNG"), isBinary("größe")]).toEqual([true, true, false]);
});

test("the folder that was dropped is no part of the paths", () => {
  expect(withoutCommonFolder(["graph/a.json", "graph/agents/b.md"])).toEqual(["a.json", "agents/b.md"]);
  expect(withoutCommonFolder(["a.json", "graph/b.json"])).toEqual(["a.json", "graph/b.json"]);
  expect(withoutCommonFolder(["a.json"])).toEqual(["a.json"]);
});

test("loose blocks belong into the folder of blocks", () => {
  expect(placeCompanion("count.json", "main.json", "pipeline")).toBe("blocks/count.json");
  expect(placeCompanion("main.json", "main.json", "pipeline")).toBe("main.json");
  expect(placeCompanion("part.mdx", "main.mdx", "markdown")).toBe("part.mdx");
});
