import { expect, test } from "vitest";
import { parseSide, writeSide } from "./side";

test("a side is a workflow or a version of it", () => {
  expect(parseSide("poem@2")).toEqual({ workflow: "poem", version: 2 });
  expect(parseSide("poem")).toEqual({ workflow: "poem" });
  expect(parseSide("poem@0")).toEqual({ workflow: "poem@0" });
  for (const text of ["poem@12", "poem", "a.b@c@3"]) expect(writeSide(parseSide(text))).toBe(text);
});
