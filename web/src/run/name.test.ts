import { expect, test } from "vitest";
import { nameRun } from "./name";

test("a run of one step is named after the step, not after its path", () => {
  expect(nameRun("Story, only /title")).toBe("Story: only the step “title”");
  expect(nameRun("Digest, only /nodes~1/page")).toBe("Digest: only the step “page”");
  expect(nameRun("Hammers, only 5 dollars")).toBe("Hammers, only 5 dollars");
});
