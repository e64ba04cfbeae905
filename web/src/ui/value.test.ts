import { expect, test } from "vitest";
import { isPicture, looksOf } from "./value";

test("only formats of pictures that hold no scripts are pictures", () => {
  for (const type of ["png", "jpeg", "webp", "gif"])
    expect(isPicture(`data:image/${type};base64,AA==`)).toBe(true);
  const texts = [
    "data:image/svg+xml;base64,AA==",
    "data:text/html;base64,AA==",
    "https://example.org/x.png",
    'data:image/png;base64,AA==" onerror="alert(1)',
    "see data:image/png;base64,AA==",
  ];
  for (const text of texts) expect(isPicture(text)).toBe(false);
});

test("a text that holds a list or an object has the looks of both", () => {
  expect(looksOf('{"a": 1}')).toEqual(["text", "formatted", "tree"]);
  expect(looksOf('[{"a": 1}, {"a": 2}]')).toEqual(["text", "formatted", "table", "tree"]);
  for (const text of ["1", "{a}", "", "[link](https://example.org)"]) {
    expect(looksOf(text)).toEqual(["text", "formatted"]);
  }
});
