import { expect, test } from "vitest";
import { ID_PATTERN, idOfFile, isId, suggestId, withName } from "./new-id";

test("a name suggests an id", () => {
  expect(suggestId("Answer a support request", "steps")).toBe("answer-a-support-request");
  expect(suggestId("  Prüfung №2: Größe! ", "pipeline")).toBe("prufung-no2-große");
  expect(suggestId("  Prüfung №2: Größe! ", "steps")).toBe("prufung-no2-gro-e");
  expect(suggestId("…", "pipeline")).toBe("");
  expect(["a.b-c_d", ".hidden", "two words", ""].map((id) => isId(id, "pipeline"))).toEqual([
    true,
    false,
    false,
    false,
  ]);
});

test("a name in any script suggests an id that the server accepts", () => {
  const names = [
    "Отчёт недели",
    "日本語の名前",
    "が行",
    "हिन्दी में",
    "تقرير الأسبوع",
    "조선말 보고",
    "x".repeat(300),
  ];
  const ids = names.map((name) => suggestId(name, "pipeline"));
  expect(ids.slice(0, 3)).toEqual(["отчёт-недели", "日本語の名前", "が行"]);
  expect(ids.every((id) => isId(id, "pipeline"))).toBe(true);
  // A field of a form reads the pattern with another flag.
  expect(ids.every((id) => new RegExp(`^(?:${ID_PATTERN})$`, "v").test(id))).toBe(true);
  expect(isId("я".repeat(129), "pipeline")).toBe(false);
  // Step lists declare ids of Latin letters.
  expect([suggestId("Отчёт недели", "steps"), suggestId("Отчёт 7", "steps")]).toEqual(["", "7"]);
  expect(isId("отчёт", "steps")).toBe(false);
  expect(idOfFile("Отчёт недели.json")).toBe("Отчёт-недели");
});

test("a definition gets the name", () => {
  expect(withName('{"id": "a", "name": "a", "steps": [{"name": "a"}]}', "a", "A $1")).toBe(
    '{"id": "a", "name": "A $1", "steps": [{"name": "a"}]}',
  );
  expect(withName("---\ntitle: a\n---\n\na", "a", "A: b")).toBe('---\ntitle: "A: b"\n---\n\na');
});
