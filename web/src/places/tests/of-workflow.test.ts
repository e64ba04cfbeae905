import { expect, test } from "vitest";
import { definitionOf, judge, testsOf } from "./of-workflow";

const TESTS = [
  { file: "echo.json", definition: "../echo.json", workflow: null },
  { file: "deep/echo.json", definition: "../../flows/echo.json", workflow: null },
  { file: "broken.json", definition: null, workflow: null },
  { file: "stored.json", definition: null, workflow: "stored" },
];

test("a test belongs to the workflow that it names by its file or its id", () => {
  const filesOf = (id: string, file: string | null) => testsOf(TESTS, { id, file }).map((test) => test.file);
  expect(TESTS.map(definitionOf)).toEqual(["echo.json", "flows/echo.json", undefined, undefined]);
  expect(filesOf("a", "flows/echo.json")).toEqual(["deep/echo.json"]);
  // The folder that is served may be below that of the project.
  expect(filesOf("a", "echo.json")).toEqual(["echo.json", "deep/echo.json"]);
  expect(filesOf("a", "cho.json")).toEqual([]);
  expect(filesOf("stored", null)).toEqual(["stored.json"]);
});

test("a failure counts, and only tests that all ran have passed", () => {
  const results = (...passed: boolean[]) =>
    new Map(passed.map((one, at) => [TESTS[at]?.file ?? "", { passed: one }]));
  expect(judge(TESTS, results())).toEqual({ state: "unknown", count: 4, failed: 0 });
  expect(judge(TESTS, results(true, false)).state).toBe("failed");
  expect(judge(TESTS, results(true, true, true)).state).toBe("unknown");
  expect(judge(TESTS, results(true, true, true, true)).state).toBe("passed");
});
