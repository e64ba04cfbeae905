// Reads the turns of the journals that the engine's tests keep.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parseJson } from "../api/json";
import { RunHistory } from "./history";
import type { RunRecord } from "./record";
import { listEntries, readOpening } from "./turn";

/** The entries after the last event of a journal, or after an earlier one. */
function entriesOf(journal: string, seq = Number.POSITIVE_INFINITY) {
  const file = new URL(`../../../tests/journals/v1/${journal}.jsonl`, import.meta.url);
  const history = new RunHistory();
  // The first line describes the journal.
  const lines = readFileSync(file, "utf8").trim().split("\n").slice(1);
  for (const line of lines) history.add(parseJson(line) as unknown as RunRecord);
  const state = history.stateAt(Math.min(seq, history.length));
  const entries = listEntries(state).map((entry) => {
    switch (entry.kind) {
      case "said":
        return ["said", entry.speaker, entry.text];
      case "called":
        return ["called", entry.name, entry.step?.phase];
      case "routed":
        return ["routed", entry.speaker, entry.to];
      default:
        return [entry.kind, entry.step.path, entry.step.phase];
    }
  });
  return { entries, said: readOpening(state.created?.inputs) };
}

test("an agent's approved call is a card between its answers", () => {
  const { entries, said } = entriesOf("agent-approval-answered");
  expect(said).toEqual({ text: "tea", files: [], earlier: 0 });
  expect(entries).toEqual([
    ["called", "shop_post", "finished"],
    ["asked", "/turn~1[0]/tool~1[0]/approval~1", "finished"],
    ["said", "", "It is done."],
  ]);
});

test("the nodes of a graph speak in turn, and the executor's results belong to their calls", () => {
  expect(entriesOf("graph-succeeded").entries).toEqual([
    ["called", "shop_post", "finished"],
    ["said", "Desk", "It is done."],
  ]);
  expect(entriesOf("graph-succeeded", 3).entries).toEqual([["said", "Desk", undefined]]);
});

test("an uncertain call is its own entry", () => {
  const kinds = entriesOf("agent-uncertain").entries.map(([kind]) => kind);
  expect(kinds).toContain("uncertain");
});

test("files of a message are named", () => {
  const file = { $file: { name: "a.png", mime: "image/png", base64: "AAAA" } };
  const inputs = { messages: [{ role: "user", content: "hi" }], message: ["look", file] };
  expect(readOpening(inputs)).toEqual({
    text: "look",
    files: [{ name: "a.png", picture: "data:image/png;base64,AAAA" }],
    earlier: 1,
  });
});
