// Schemas and models are entered in forms: what the form has no field for stays.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { AxeBuilder } from "@axe-core/playwright";
import { closePage, openBrowser, openPage, startStudio } from "./studio.mjs";

let studio;
let browser;

before(async () => {
  studio = await startStudio();
  browser = await openBrowser();
});

after(async () => {
  await browser?.close();
  await studio?.close();
});

async function storeDefinition(id, definition) {
  const response = await fetch(`${studio.address}/api/v1/workflows/${id}`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(definition),
  });
  assert.ok(response.ok, await response.text());
}

const selectPart = (page, title) =>
  page.locator(".part", { has: page.locator(".part-title", { hasText: new RegExp(`^${title}$`) }) }).click();

/** Opens a workflow in the builder, and one of its parts. */
async function openPart(id, part) {
  const opened = await openPage(browser, studio.address, { view: "build" });
  const { page } = opened;
  page.setDefaultTimeout(10_000);
  await page.goto(`${studio.address}/workflows/${id}`);
  await selectPart(page, part);
  return { ...opened, form: page.getByRole("region", { name: "Form" }) };
}

/** Does something that changes the definition, and waits for the change. */
async function change(page, action) {
  const answered = page.waitForResponse((response) => response.url().endsWith("/definitions/edit"));
  await action();
  assert.equal((await answered).status(), 200);
}

async function fill(page, field, text) {
  await change(page, async () => {
    await field.fill(text);
    await field.blur();
  });
}

/** Saves the workflow, and returns the text that is stored. */
async function save(page, id) {
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("Saved", { exact: true }).first().waitFor();
  const { entry, files } = await (await fetch(`${studio.address}/api/v1/workflows/${id}/source`)).json();
  return files[entry];
}

async function assertAccessible(page) {
  await page.mouse.move(0, 0);
  const { violations } = await new AxeBuilder({ page }).analyze();
  assert.deepEqual(
    violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`),
    [],
  );
}

const BLOCK = {
  id: "count",
  name: "Count",
  execution_type: "python",
  source_code: "def execute(inputs, context):\n    return {}\n",
  input_schema: {
    $comment: "from the shop",
    type: "object",
    properties: {
      text: { type: "string", minLength: 2 },
      many: { type: ["string", "null"], "x-unit": 1.0 },
    },
    required: ["text"],
  },
  output_schema: { anyOf: [{ type: "object" }, { type: "string" }], type: ["object", "string"] },
};

test("the fields of a schema are added, named, described and nested, and other keywords stay", async () => {
  const pipeline = {
    id: "shapes",
    name: "Shapes",
    nodes: [{ id: "n1", block_id: "count", inputs: { text: "a b" } }],
    edges: [],
  };
  await storeDefinition("shapes", { pipeline, blocks: [BLOCK] });
  const opened = await openPart("shapes", "Count");
  const { page, form } = opened;
  const inputs = form.getByRole("group", { name: "Input schema", exact: true });
  await fill(page, inputs.getByLabel("Name of text"), "letter");
  await fill(page, inputs.getByLabel("Description of letter"), "What is counted");
  await change(page, () => inputs.getByLabel("letter is required").uncheck());
  await inputs.getByText("Also: minLength.").waitFor();
  await change(page, () => inputs.getByRole("button", { name: "Add a field to Input schema" }).click());
  await fill(page, inputs.getByLabel("Name of field"), "mode");
  await inputs.getByRole("button", { name: "Permitted values of mode" }).click();
  await fill(page, inputs.getByRole("textbox", { name: "Permitted values of mode" }), "words\nlines");
  await change(page, () => inputs.getByRole("button", { name: "Add a field to Input schema" }).click());
  await fill(page, inputs.getByLabel("Name of field"), "marks");
  await change(page, () => inputs.getByLabel("Type of marks", { exact: true }).selectOption("List"));
  await change(page, () => inputs.getByLabel("Type of the items of marks").selectOption("Object"));
  await change(page, () => inputs.getByRole("button", { name: "Add a field to the items of marks" }).click());
  await change(page, () => inputs.getByLabel("Type of field").selectOption("Whole number"));
  await change(page, () => inputs.getByLabel("field is required").check());
  await inputs.getByLabel("Name of marks").fill("letter");
  await inputs.getByText("There is a field “letter” already.").waitFor();
  await fill(page, inputs.getByLabel("Name of marks"), "points");
  // What the form cannot show is text.
  const outputs = form.getByLabel("Output schema", { exact: true });
  assert.match(await outputs.inputValue(), /anyOf/);
  await assertAccessible(page);
  const { blocks } = JSON.parse(await save(page, "shapes"));
  assert.deepEqual(blocks[0].input_schema, {
    $comment: "from the shop",
    type: "object",
    properties: {
      letter: { type: "string", minLength: 2, description: "What is counted" },
      many: { type: ["string", "null"], "x-unit": 1.0 },
      mode: { type: "string", enum: ["words", "lines"] },
      points: {
        type: "array",
        items: { type: "object", properties: { field: { type: "integer" } }, required: ["field"] },
      },
    },
  });
  assert.deepEqual(Object.keys(blocks[0].input_schema.properties), ["letter", "many", "mode", "points"]);
  assert.deepEqual(blocks[0].output_schema, BLOCK.output_schema);
  await closePage(opened);
});

test("the same schema is changed as text and as a form", async () => {
  const nodes = [{ id: "n1", block_id: "count", inputs: { text: "a b" } }];
  const pipeline = { id: "texts", name: "Texts", nodes, edges: [] };
  await storeDefinition("texts", { pipeline, blocks: [BLOCK] });
  const opened = await openPart("texts", "Count");
  const { page, form } = opened;
  const looks = form.getByRole("group", { name: "Input schema: form or text" });
  await looks.getByRole("button", { name: "JSON" }).click();
  await fill(page, form.getByLabel("Input schema", { exact: true }), '{"properties": {"page": {}}}');
  await looks.getByRole("button", { name: "Form" }).click();
  await form.getByLabel("Name of page").waitFor();
  assert.equal(await form.getByLabel("Type of page").inputValue(), "any");
  await change(page, () => form.getByRole("button", { name: "Remove page" }).click());
  await closePage(opened);
});

test("the answer schema of a Markdown action is a form unless it is computed", async () => {
  const text =
    '---\ntitle: Answers\n---\n\nName a city.\n\n<GenObject as="city" model="house:small" schema={{ type: "object", properties: { name: { type: "string" } } }} />\n';
  const opened = await openPage(browser, studio.address, { view: "build" });
  const { page } = opened;
  page.setDefaultTimeout(10_000);
  await page.goto(studio.address);
  await page
    .locator("input[type=file]")
    .setInputFiles([{ name: "answers.mdx", mimeType: "text/markdown", buffer: Buffer.from(text) }]);
  await page.waitForURL(/workflows\/answers/);
  await page.goto(`${studio.address}/workflows/answers?view=build`);
  await selectPart(page, "city");
  const form = page.getByRole("region", { name: "Form" });
  const schema = form.getByRole("group", { name: "Schema", exact: true });
  await fill(page, schema.getByLabel("Name of name"), "city");
  await change(page, () => schema.getByRole("button", { name: "Add a field to Schema" }).click());
  await change(page, () => schema.getByLabel("Type of field").selectOption("Number"));
  const saved = await save(page, "answers");
  assert.match(
    saved,
    /schema=\{\{ type: "object", properties: \{ city: \{ type: "string" \}, field: \{ type: "number" \} \} \}\}/,
  );
  await closePage(opened);
});

test("a model is chosen from the list, or entered", async () => {
  await storeDefinition("talker", { name: "Talker", systemPrompt: "You help.", tools: [] });
  const opened = await openPart("talker", "Definition");
  const { page, form } = opened;
  const model = form.getByRole("combobox", { name: "Model" });
  if (!(await model.isVisible())) await form.getByText("More fields").click();
  await model.click();
  await page.keyboard.press("ArrowDown");
  const list = form.getByRole("listbox", { name: "Model" });
  await list
    .getByRole("group", { name: "Configured" })
    .getByRole("option", { name: /house:small/ })
    .waitFor();
  await assertAccessible(page);
  await page.keyboard.type("gpt-5-mini");
  assert.deepEqual(await list.getByRole("option").locator(".mono").allInnerTexts(), ["openai:gpt-5-mini"]);
  await page.keyboard.press("Escape");
  assert.equal(await list.count(), 0);
  await model.fill("");
  await page.keyboard.press("Escape");
  await form.getByRole("button", { name: "Show models" }).click();
  await change(page, () => list.getByRole("option", { name: /house:small/ }).click());
  assert.equal(await model.inputValue(), "house:small");
  assert.equal(JSON.parse(await save(page, "talker")).model, "house:small");
  await fill(page, model, "mine:own");
  assert.equal(JSON.parse(await save(page, "talker")).model, "mine:own");
  await closePage(opened);
});
