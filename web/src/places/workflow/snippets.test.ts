import { expect, test, vi } from "vitest";

test("values are literals of Python", async () => {
  vi.stubGlobal("document", { baseURI: "http://localhost/" });
  const { writePython } = await import("./snippets");
  expect(writePython({ a: [true, false, null], "b c": { n: 1.5, s: 'x "y"' } })).toBe(
    '{"a": [True, False, None], "b c": {"n": 1.5, "s": "x \\"y\\""}}',
  );
});
