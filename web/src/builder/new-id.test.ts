import { expect, test } from "vitest";
import { isId, suggestId, withName } from "./new-id";

test("a name suggests an id", () => {
  expect(suggestId("Answer a support request")).toBe("answer-a-support-request");
  expect(suggestId("  Prüfung №2: Größe! ")).toBe("prufung-no2-gro-e");
  expect(suggestId("…")).toBe("");
  expect([isId("a.b-c_d"), isId(".hidden"), isId("two words"), isId("")]).toEqual([
    true,
    false,
    false,
    false,
  ]);
});

test("a definition gets the name", () => {
  expect(withName('{"id": "a", "name": "a", "steps": [{"name": "a"}]}', "a", "A $1")).toBe(
    '{"id": "a", "name": "A $1", "steps": [{"name": "a"}]}',
  );
  expect(withName("---\ntitle: a\n---\n\na", "a", "A: b")).toBe('---\ntitle: "A: b"\n---\n\na');
});
