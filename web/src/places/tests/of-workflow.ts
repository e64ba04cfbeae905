// Which tests belong to a workflow, and what they found together.
import type { Schemas } from "../../api/client";

type Info = Schemas["TestInfo"];
export type Result = Schemas["TestResult"];
type Subject = Pick<Info, "file" | "definition" | "workflow">;

/** The path of the definition of a test, from the folder of the project; undefined if the test names none. */
export function definitionOf(test: Pick<Info, "file" | "definition">): string | undefined {
  if (!test.definition) return undefined;
  const steps = `tests/${test.file}`.split("/").slice(0, -1);
  for (const step of test.definition.split("/")) {
    if (step === "..") steps.pop();
    else if (step !== "." && step !== "") steps.push(step);
  }
  return steps.join("/");
}

/** A workflow as tests name it: by its id, or by its file if it has one. */
export type TestedWorkflow = Pick<Schemas["WorkflowInfo"], "id" | "file">;

/** The tests of a workflow. The served folder may be a part of the project. */
export function testsOf<Test extends Subject>(tests: readonly Test[], { id, file }: TestedWorkflow): Test[] {
  return tests.filter((test) => {
    const definition = definitionOf(test);
    return (
      test.workflow === id || (file != null && (definition === file || definition?.endsWith(`/${file}`)))
    );
  });
}

export type Verdict = { state: "unknown" | "passed" | "failed"; count: number; failed: number };

/** The state of several tests together: a failure counts, also if others have not run. */
export function judge(
  tests: readonly Pick<Info, "file">[],
  results: ReadonlyMap<string, Pick<Result, "passed">>,
): Verdict {
  const seen = tests.map((test) => results.get(test.file));
  const failed = seen.filter((result) => result && !result.passed).length;
  const state = failed > 0 ? "failed" : seen.every(Boolean) ? "passed" : "unknown";
  return { state, count: tests.length, failed };
}
