import { expect, test } from "vitest";
import { ExactNumber } from "../../api/json";
import { SEEN_MS } from "../../ui/closed-question";
import { chooseItem, isEmptyInput, keepShown } from "./open";

const [a, b] = [{ run_id: "a" }, { run_id: "b" }];

test("an item stays open when it waits no longer, until another one is wanted", () => {
  const first = chooseItem([a, b], "a", undefined);
  expect(first?.run).toBe(a);
  const gone = chooseItem([b], "a", first);
  expect(gone?.run).toBe(a);
  expect(chooseItem([], "a", gone)?.run).toBe(a);
  expect(chooseItem([b], "b", gone)?.run).toBe(b);
});

test("the first item stays open, too, if the address names none", () => {
  const first = chooseItem([a, b], undefined, undefined);
  expect(first?.run).toBe(a);
  expect(chooseItem([b], undefined, first)?.run).toBe(a);
});

test("a link to an item that does not wait opens no other one", () => {
  expect(chooseItem([a, b], "other", undefined)).toBeUndefined();
  expect(chooseItem([], "other", undefined)).toBeUndefined();
  const opened = chooseItem([a, b], "a", undefined);
  expect(chooseItem([a, b], "other", opened)).toBeUndefined();
});

test("a question that someone else answered stays, one that was answered here does not", () => {
  const waiting = ["one", "two"].map((path) => ({ run: "a", path, question: { question: path } }));
  const shown = keepShown([], waiting, new Set(), 0);
  const later = keepShown(shown, [], new Set(["a two"]), SEEN_MS);
  expect(later.map(({ waiting, isOpen }) => [waiting.path, isOpen])).toEqual([["one", false]]);
  expect(keepShown(later, [], new Set(), SEEN_MS)).toHaveLength(1);
  expect(keepShown(later, waiting, new Set(), SEEN_MS)).toHaveLength(2);
  expect(keepShown(shown, [], new Set(), SEEN_MS - 1), "nobody has seen them").toEqual([]);
});

test("short inputs are shown, and those that say nothing are not", () => {
  const short = [42, 0, true, false, "hi", [1], { a: null }, new ExactNumber("12345678901234567890")];
  expect(short.map(isEmptyInput)).toEqual(short.map(() => false));
  expect([null, "", {}].map(isEmptyInput)).toEqual([true, true, true]);
});
