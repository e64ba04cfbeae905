import { expect, test } from "vitest";
import type { StepState } from "./fold";
import { createState } from "./fold";
import { buildRows, listRows, type Row, summarizeSteps, toStaticPath } from "./rows";

function stepAt(path: string, phase: StepState["phase"] = "finished"): StepState {
  return {
    path,
    phase,
    attempts: 1,
    startedAt: 1,
    finishedAt: 2,
    warnings: [],
    isFailureIgnored: false,
    firstSeq: 1,
    tries: [],
  };
}

/** Rows as indented labels. */
function draw(rows: Row[], depth = 0): string[] {
  return rows.flatMap((row) => ["  ".repeat(depth) + row.label, ...draw(row.children, depth + 1)]);
}

test("loops and visits hold their iterations, and a part with one step is one row", () => {
  const paths = [
    "/fetch",
    "/refine[0]/page",
    "/refine[1]/page",
    "/route#1",
    "/deep/only",
    "/deep/only/tool~1[0]",
  ];
  expect(draw(buildRows(paths.map((path) => stepAt(path))))).toEqual([
    "fetch",
    "refine",
    "  [0] / page",
    "  [1] / page",
    "route",
    "deep / only",
    "  tool",
  ]);
});

test("rows appear when their first step has happened, and long groups start folded", () => {
  const steps = Array.from({ length: 20 }, (_, at) => stepAt(`/each[${at}]`));
  const rows = buildRows([stepAt("/first"), ...steps]);
  const labels = (count: number, folds = new Map<string, boolean>()) =>
    listRows(rows, count, folds).map(({ row }) => row.label);
  expect(labels(1)).toEqual(["first"]);
  expect(labels(21)).toEqual(["first", "each"]);
  expect(labels(3, new Map([["/each", true]]))).toEqual(["first", "each", "[0]", "[1]"]);
});

test("a group has the phase that needs most attention", () => {
  const state = { ...createState(), steps: [stepAt("/a"), stepAt("/b", "failed"), stepAt("/c", "running")] };
  expect(summarizeSteps(state, [0, 1, 2])).toEqual({
    phase: "failed",
    count: 3,
    startedAt: 1,
    endedAt: undefined,
  });
  expect(summarizeSteps(state, [7])).toBeUndefined();
});

test("a static path has no iterations", () => {
  expect(toStaticPath("/refine[2]/page#3/x")).toBe("/refine/page/x");
});
