import { expect, test } from "vitest";
import { toSnippet } from "./snippet";

test("places keep their texts, and of choices the first", () => {
  expect(toSnippet('"type": "$1"')).toBe('"type": "${}"');
  expect(toSnippet('as="${1:name}"')).toBe('as="${name}"');
  expect(toSnippet("{${1|false,true|}}")).toBe("{${false}}");
  expect(toSnippet("schema={\\$.z.object({ $1 })}")).toBe("schema={$.z.object({ ${} })}");
  expect(toSnippet("until={\\$.index >= ${2:3}}")).toBe("until={$.index >= ${3}}");
  expect(toSnippet("[$1]$0")).toBe("[${}]${}");
});
