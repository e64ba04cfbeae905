import { expect, test } from "vitest";
import type { StepState } from "./fold";
import { createState } from "./fold";
import { NodeFinder } from "./graph";
import {
  buildRows,
  durationOf,
  findFailedSteps,
  listRows,
  nameOf,
  summarizeRow,
  summarizeSteps,
  titleOf,
  toStaticPath,
} from "./rows";

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

/** The rows of the first `count` steps, as indented labels. */
function draw(paths: string[], count = paths.length): string[] {
  const rows = buildRows(paths.map((path) => stepAt(path)));
  return listRows(rows, count, new Map()).map(({ label, depth }) => "  ".repeat(depth) + label);
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
  expect(draw(paths)).toEqual([
    "fetch",
    "refine",
    "  [0] / page",
    "  [1] / page",
    "route",
    "deep / only",
    "  Tool call",
  ]);
});

test("a conversation has rows for its answers, and none for the run itself", () => {
  expect(draw(["/turn~1[0]", "/turn~1[0]/tool~1[0]", "/turn~1[1]", "/"])).toEqual([
    "Answer",
    "  [0]",
    "    Tool call",
    "  [1]",
  ]);
  expect(draw(["/"])).toEqual(["/"]);
});

test("parts that no definition names have words, and are left out around a single step", () => {
  expect(draw(["/fanout~1/mood", "/fanout~1/topic", "/fanout~2/a", "/fanout~2/b"])).toEqual([
    "Parallel",
    "  mood",
    "  topic",
    "Parallel 2",
    "  a",
    "  b",
  ]);
  expect(draw(["/phase~1/greeting", "/last/then~1/phase~1/word"])).toEqual(["greeting", "last / word"]);
  // A second step with the same name is none of them.
  expect(draw(["/draft~2"])).toEqual(["draft~2"]);
});

test("rows appear when their first step has happened, and long groups start folded", () => {
  const steps = Array.from({ length: 20 }, (_, at) => stepAt(`/each[${at}]`));
  const rows = buildRows([stepAt("/first"), ...steps]);
  const labels = (count: number, folds = new Map<string, boolean>()) =>
    listRows(rows, count, folds).map(({ label }) => label);
  expect(labels(1)).toEqual(["first"]);
  expect(labels(21)).toEqual(["first", "each"]);
  expect(labels(3, new Map([["/each", true]]))).toEqual(["first", "each", "[0]", "[1]"]);
});

test("rows do not depend on steps that come later", () => {
  const paths = ["/improve[0]", "/improve[1]", "/route#1", "/route#2/tool", "/each", "/each[0]"];
  for (let count = 0; count <= paths.length; count++) {
    expect(draw(paths, count)).toEqual(draw(paths.slice(0, count)));
  }
  expect(draw(paths, 1)).toEqual(["improve"]);
  expect(draw(paths, 2)).toEqual(["improve", "  [0]", "  [1]"]);
});

test("a group has the phase that needs most attention", () => {
  const state = { ...createState(), steps: [stepAt("/a"), stepAt("/b", "failed"), stepAt("/c", "running")] };
  expect(summarizeSteps(state, [0, 1, 2])).toEqual({
    warnings: 0,
    phase: "failed",
    count: 3,
    startedAt: 1,
    endedAt: undefined,
  });
  expect(summarizeSteps(state, [7])).toBeUndefined();
});

test("a loop goes on between two rounds, until its own end, the next step or the end of the run", () => {
  const names = (paths: string[]) => paths.map((path) => stepAt(path));
  const between = { ...createState(), status: "running" as const, steps: names(["/loop[0]", "/loop[1]"]) };
  const phaseOf = (state: typeof between, at = 0) => {
    const row = buildRows(state.steps)[at];
    return row && summarizeRow(state, row)?.phase;
  };
  const nodes = [{ path: "/loop", title: "loop", kind: "generate" }];
  const drawn = (state: typeof between) => new NodeFinder({ nodes, edges: [] }).statesOf(state).get(0)?.phase;
  const next = { ...stepAt("/next", "running"), startedAt: 2 };
  const beside = { ...stepAt("/beside"), startedAt: 1 };
  expect([phaseOf(between), drawn(between)]).toEqual(["running", "running"]);
  expect(phaseOf({ ...between, steps: [...between.steps, beside] })).toBe("running");
  for (const end of [stepAt("/loop"), next]) {
    const ended = { ...between, steps: [...between.steps, end] };
    expect([phaseOf(ended), drawn(ended)]).toEqual(["finished", "finished"]);
  }
  expect(phaseOf({ ...between, status: "succeeded" as never })).toBe("finished");
  // A visit of a node of a graph has events of its own.
  expect(phaseOf({ ...between, steps: names(["/route#1", "/route#2"]) })).toBe("finished");
  expect(phaseOf({ ...between, steps: names(["/plain"]) })).toBe("finished");
});

test("a failure is never shown as skipped: either the run failed because of it, or went on", () => {
  const failed = { ...stepAt("/nodes~1/n1", "failed"), isFailureIgnored: true };
  const steps = [stepAt("/load_user"), failed, stepAt("/nodes~1/n2", "skipped")];
  const going = { ...createState(), steps };
  expect(summarizeSteps(going, [1, 2])?.phase).toBe("tolerated");
  expect(findFailedSteps(going)).toEqual([]);
  const ended = { ...going, failed: "/nodes~1" };
  expect(summarizeSteps(ended, [1])?.phase).toBe("failed");
  expect(findFailedSteps(ended)).toEqual([failed]);
  // A step that failed earlier, and that the run survived, is no cause.
  expect(findFailedSteps({ ...going, failed: "/nodes~10" })).toEqual([]);
});

test("a static path has no iterations", () => {
  expect(toStaticPath("/refine[2]/page#3/x")).toBe("/refine/page/x");
});

test("a step without a name is called by the end of its path", () => {
  const titles = ["/fanout~1/part_2", "/improve[0]", "/turn~1[0]", "/route#2", "/"].map((path) =>
    titleOf(path, new Map()),
  );
  expect(titles).toEqual(["part_2", "improve[0]", "Answer[0]", "route#2", "/"]);
  expect(titleOf("/part", new Map([["/part", "The part"]]))).toBe("The part");
});

test("rows and details have the names that the definition gives, which paths cannot hold", () => {
  const names = new Map([
    ["/sequential", "Summarise the ticket"],
    ["/sequential~2", "Prüfen"],
    ["/draft", "draft"],
  ]);
  const rows = buildRows(
    ["/sequential", "/sequential~2[0]", "/sequential~2[1]", "/draft"].map((path) => stepAt(path)),
  );
  const labels = listRows(rows, 4, new Map(), names).map((row) => row.label);
  expect(labels).toEqual(["Summarise the ticket", "Prüfen", "[0]", "[1]", "draft"]);
  expect(nameOf("/sequential~2[1]", names)).toBe("Prüfen[1]");
  expect(nameOf("/draft", names)).toBeUndefined();
});

test("a node that is visited several times takes the time of its visits", () => {
  const visits: [string, number, number][] = [
    ["/triage#1", 0, 10],
    ["/writer#1", 10, 900],
    ["/triage#2", 900, 930],
  ];
  const steps = visits.map(([path, startedAt, finishedAt]): StepState => {
    const rest = { attempts: 1, warnings: [], isFailureIgnored: false, firstSeq: 1, tries: [] };
    return { path, phase: "finished", startedAt, finishedAt, ...rest };
  });
  const state = { ...createState(), steps };
  const times = buildRows(steps).map((row) => {
    const summary = summarizeRow(state, row);
    return summary && durationOf(summary, 0);
  });
  expect(times).toEqual([40, 890]);
});
