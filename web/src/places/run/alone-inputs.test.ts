import { expect, test } from "vitest";
import { addEdited, completeInputs, pickInputs } from "./alone-inputs";

const input = (name: string) => ({ name, kind: "any", is_file: false, required: false });
const stepOf = (values: Record<string, string>, ...names: string[]) => ({ inputs: names.map(input), values });

test("a variable that was just inserted has its last value", () => {
  const last = new Map([
    ["mood", "angry"],
    ["topic", "lamps"],
  ]);
  const saved = stepOf({ topic: "chairs" }, "topic");
  const shown = addEdited(saved, { references: ["topic", "mood", "new"], last });
  expect(shown.inputs.map(({ name }) => name)).toEqual(["topic", "mood", "new"]);
  expect(shown.values).toEqual({ topic: "chairs", mood: "angry" });
  expect(addEdited(saved, undefined)).toBe(saved);
  expect(pickInputs(saved, { topic: "a", mood: "b" })).toEqual({ topic: "a" });
});

test("a step whose inputs are all known runs at once after it was saved", () => {
  const shown = stepOf({}, "topic");
  const entered = { topic: "lamps" };
  expect(completeInputs(stepOf({}, "topic"), shown, entered)).toEqual(entered);
  // What is no longer read is left out, and what was left empty stays empty.
  expect(completeInputs(stepOf({}), shown, entered)).toEqual({});
  expect(completeInputs(stepOf({}, "topic"), shown, {})).toEqual({});
  expect(completeInputs(stepOf({ mood: "calm" }, "topic", "mood"), shown, entered)).toEqual({
    topic: "lamps",
    mood: "calm",
  });
  expect(completeInputs(stepOf({}, "topic", "mood"), shown, entered)).toBeUndefined();
});
