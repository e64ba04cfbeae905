import { expect, test } from "vitest";
import type { Edit, Part } from "./definition";
import { keepSteps } from "./known-steps";
import { rebaseEdits } from "./rebase";
import { END } from "./siblings";

/** The parts of a step list. A step that has a name only is equal to no other one. */
function partsOf(...titles: string[]): Part[] {
  return titles.map((title, at) => ({
    list: "steps",
    path: ["steps", at],
    parent: null,
    kind: "sequential",
    title,
    start: at,
    length: 1,
    value: { name: title },
    form: "step",
    step: `/${title}`,
  })) as unknown as Part[];
}

const before = partsOf("essay", "answer", "summary");

test("changes that wait keep their parts when another one moves, goes or comes", () => {
  const edits: Edit[] = [
    { do: "set", path: ["steps", 1, "prompt"], value: "Hello" },
    { do: "add", list: ["steps"], at: 2, kind: "loop" },
    { do: "add", list: ["steps"], at: END, kind: "loop" },
    { do: "set", path: ["name"], value: "Two" },
  ];
  const [set, add, ...others] = edits;
  const at = (place: number, position: number) => [
    { ...set, path: ["steps", place, "prompt"] },
    { ...add, at: position },
    ...others,
  ];
  expect(rebaseEdits(edits, before, partsOf("answer", "essay", "summary"))).toEqual(at(0, 1));
  expect(rebaseEdits(edits, before, partsOf("answer", "summary"))).toEqual(at(0, 1));
  expect(rebaseEdits(edits, before, partsOf("new", "essay", "answer", "summary"))).toEqual(at(2, 3));
  expect(rebaseEdits(edits, before, partsOf("essay", "summary"))).toBeUndefined();
});

test("a part moves to the place of the one that it was dropped on", () => {
  const edits: Edit[] = [{ do: "move", path: ["steps", 2], at: 0 }];
  const after = partsOf("new", "essay", "answer", "summary");
  expect(rebaseEdits(edits, before, after)).toEqual([{ do: "move", path: ["steps", 3], at: 1 }]);
});

test("parts keep their steps while the definition has errors", () => {
  const stepsOf = (...titles: string[]) => {
    const parts = partsOf(...titles).map((part) => ({ ...part, step: null }));
    return keepSteps(parts, before).map(({ step }) => step);
  };
  expect(stepsOf("essay", "renamed", "summary")).toEqual(["/essay", "/answer", "/summary"]);
  expect(stepsOf("summary", "essay", "answer")).toEqual(["/summary", "/essay", "/answer"]);
  expect(stepsOf("essay", "new", "answer", "summary")).toEqual(["/essay", null, "/answer", "/summary"]);
});

test("of equal parts, the one at the same position is the same", () => {
  const equal = partsOf("same", "same", "same");
  const changed = equal.map((part, at) =>
    at === 0 ? { ...part, value: { name: "same", prompt: "x" } } : part,
  );
  const edits: Edit[] = [0, 1, 2].map((at) => ({ do: "set", path: ["steps", at, "prompt"], value: "y" }));
  expect(rebaseEdits(edits, equal, changed)).toEqual(edits);
  const steps = keepSteps(
    changed.map((part) => ({ ...part, step: null })),
    equal.map((part, at) => ({ ...part, step: `/${at}` })),
  );
  expect(steps.map(({ step }) => step)).toEqual(["/0", "/1", "/2"]);
});
