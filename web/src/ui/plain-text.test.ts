import { expect, test } from "vitest";
import { toPlainText } from "./plain-text";

test("the marks of Markdown are left out, and other text stays", () => {
  const text = "# Postcards\n\nMakes **short** `texts` for [friends](https://example.com):\n\n- one\n- two";
  expect(toPlainText(text)).toBe("Postcards Makes short texts for friends: one two");
  expect(toPlainText("Writes 2 * 3 * 4 as a_b_c, at #1.")).toBe("Writes 2 * 3 * 4 as a_b_c, at #1.");
});
