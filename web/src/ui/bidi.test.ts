import { expect, test } from "vitest";
import { showDirections } from "./bidi";

test("characters that turn text around are shown, and text in any direction stays", () => {
  expect(showDirections("invoice-\u202Egnp.exe\u202C")).toBe("invoice-[U+202E]gnp.exe[U+202C]");
  expect(showDirections("\u2066a\u2069")).toBe("[U+2066]a[U+2069]");
  for (const text of ["שלום עולם", "مرحبا\u200F 5", "plain"]) expect(showDirections(text)).toBe(text);
});
