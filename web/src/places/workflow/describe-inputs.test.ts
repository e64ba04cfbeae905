import { expect, test } from "vitest";
import { describeInputs } from "./describe-inputs";

test("inputs without content are not described", () => {
  expect([null, {}, "", " \n"].map(describeInputs)).toEqual([undefined, undefined, undefined, undefined]);
  expect(describeInputs({ city: "Bonn" })).toBe('{ "city": "Bonn" }');
  expect(describeInputs("Bonn")).toBe("Bonn");
});
