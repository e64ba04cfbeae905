// The rules of the code that a reader cannot see at a glance: functions have at most 70 lines, files at most 500.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { expect, test } from "vitest";

const MAX_FUNCTION_LINES = 70;
const MAX_FILE_LINES = 500;

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const FILES = ["src", "browser", "scripts"].flatMap((folder) =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((file) => /\.(tsx?|mjs)$/.test(file) && !file.endsWith(".gen.ts"))
    .map((file) => join(folder, file)),
);

/** The functions of a file that are too long, with their lines. */
function findLong(file: string): string[] {
  const text = readFileSync(join(ROOT, file), "utf8");
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const lineOf = (at: number) => source.getLineAndCharacterOfPosition(at).line;
  const found: string[] = lineOf(text.length) > MAX_FILE_LINES ? [file] : [];
  const visit = (node: ts.Node) => {
    if (ts.isFunctionLike(node)) {
      const lines = lineOf(node.end) - lineOf(node.getStart()) + 1;
      if (lines > MAX_FUNCTION_LINES) found.push(`${file}:${lineOf(node.getStart()) + 1} has ${lines} lines`);
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

test("functions and files are short", () => {
  expect(FILES.length).toBeGreaterThan(300);
  expect(FILES.flatMap(findLong)).toEqual([]);
});

test("every class that a component names has a rule", () => {
  const read = (pattern: RegExp, within: RegExp) =>
    readdirSync(join(ROOT, "src"), { recursive: true, encoding: "utf8" })
      .filter((file) => within.test(file))
      .flatMap((file) => [...readFileSync(join(ROOT, "src", file), "utf8").matchAll(pattern)])
      .map(([, found = ""]) => found);
  const rules = new Set(read(/\.([a-z][\w-]*)/g, /\.css$/));
  const named = read(/className="([^"]+)"/g, /\.tsx$/).flatMap((names) => names.split(" "));
  expect(named.length).toBeGreaterThan(500);
  expect([...new Set(named)].filter((name) => !rules.has(name))).toEqual([]);
});
