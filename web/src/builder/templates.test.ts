import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { t } from "../strings";
import { listEdges, TEMPLATES, writeTemplate } from "./templates";

type Schema = { properties: Record<string, object>; required?: string[] };
type Block = { id: string; input_schema: Schema; output_schema: Schema };

const BUILT_IN = new URL("../../../crates/formats/src/pipeline/built_in.json", import.meta.url);
const blocks = new Map((JSON.parse(readFileSync(BUILT_IN, "utf8")) as Block[]).map((one) => [one.id, one]));

for (const template of TEMPLATES) {
  test(`${template.id} uses built-in blocks as they are declared`, () => {
    const done = new Map<string, Block>();
    for (const { id, block_id, inputs } of template.nodes) {
      const block = blocks.get(block_id);
      if (!block) throw new Error(`${block_id} is no built-in block`);
      expect(Object.keys(block.input_schema.properties)).toEqual(expect.arrayContaining(Object.keys(inputs)));
      expect(Object.keys(inputs)).toEqual(expect.arrayContaining(block.input_schema.required ?? []));
      for (const [, node = "", field = ""] of JSON.stringify(inputs).matchAll(/\{\{(\w+)\.(\w+)/g)) {
        expect(Object.keys(done.get(node)?.output_schema.properties ?? {})).toContain(field);
      }
      done.set(id, block);
    }
  });
}

test("every template has a name, and its text is a pipeline with connections", () => {
  expect(TEMPLATES.map(({ id }) => id)).toEqual(Object.keys(t.templates.pipelines));
  const [digest] = TEMPLATES;
  if (!digest) throw new Error("there is no template");
  const written = JSON.parse(writeTemplate(digest, "mine", "Mine"));
  expect([written.id, written.name]).toEqual(["mine", "Mine"]);
  expect(written.edges).toEqual([
    { from: "page", to: "digest" },
    { from: "digest", to: "tell" },
  ]);
  expect(listEdges([])).toEqual([]);
});
