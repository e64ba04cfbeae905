import { expect, test } from "vitest";
import { findKinds } from "./find-kinds";

const KINDS = [
  { name: "Sequential", title: "Sequential", meaning: "Asks a model once" },
  { name: "human::ask", title: "Human::ask", meaning: "Waits for an answer" },
  { name: "Task", title: "Task", meaning: "Does something" },
  { name: "Asking", title: "Asking", meaning: "Asks several people" },
  { name: "Ask", title: "Ask", meaning: "Asks a person" },
];

const find = (search: string) => findKinds(KINDS, search).map((kind) => kind.name);

test("titles are found before descriptions, and the whole title first", () => {
  expect(find("ask")).toEqual(["Ask", "Asking", "human::ask", "Task", "Sequential"]);
  expect(find("Asks model")).toEqual(["Sequential"]);
  expect(find("nothing")).toEqual([]);
});

test("without a search all kinds are there in their order", () => {
  expect(find(" ")).toEqual(KINDS.map((kind) => kind.name));
});
