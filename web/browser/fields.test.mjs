// Fields of forms: each accepts what the format accepts, keeps its place, and shows what the chosen mode needs.
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

/** Stores a workflow, and opens it in the builder. */
async function open(id, definition) {
  const entry = `${id}.json`;
  const response = await fetch(`${studio.address}/api/v1/workflows/${id}`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ entry, files: { [entry]: JSON.stringify(definition, null, 2) } }),
  });
  assert.ok(response.ok, await response.text());
  const opened = await openPage(browser, studio.address, { view: "build" });
  opened.page.setDefaultTimeout(10_000);
  await opened.page.goto(`${studio.address}/workflows/${id}`);
  await opened.page.getByRole("button", { name: /^Definition/ }).waitFor();
  return { ...opened, form: opened.page.getByRole("region", { name: "Form" }) };
}

const select = (page, title) => page.locator(".part", { hasText: title }).first().click();

/** Does something that changes the definition, and returns the changed text. */
async function change(page, action) {
  const answered = page.waitForResponse((response) => response.url().endsWith("/definitions/edit"));
  await action();
  const response = await answered;
  assert.equal(response.status(), 200);
  return JSON.parse((await response.json()).text);
}

/** axe finds nothing in the form. */
async function assertAccessible(page) {
  const { violations } = await new AxeBuilder({ page }).include(".builder-form").analyze();
  assert.deepEqual(
    violations.map((violation) => [violation.id, violation.nodes.map((node) => node.html)]),
    [],
  );
}

const PAGE = { id: "page", block_id: "web_scrape", inputs: { url: "https://example.com/" } };

test("a list is a reference, and its items have references", async () => {
  const filter = { id: "kept", block_id: "filter", inputs: { items: [] } };
  const lines = {
    id: "lines",
    block_id: "for_each",
    inputs: { items: ["one"], template: "{item}", ask_model: true },
  };
  const nodes = [PAGE, filter, lines];
  const edges = [
    { from: "page", to: "kept" },
    { from: "page", to: "lines" },
  ];
  const opened = await open("lists", { id: "lists", name: "lists", nodes, edges });
  const { page, form } = opened;
  const inputsOf = (text, at) => text.nodes[at].inputs;

  await select(page, "kept");
  const items = form.getByRole("textbox", { name: /^Items/ });
  let text = await change(page, () => items.fill("{{page.content}}"));
  assert.equal(inputsOf(text, 1).items, "{{page.content}}");
  text = await change(page, () => items.fill('["a", {"b": "{{page.title}}"}]'));
  assert.deepEqual(inputsOf(text, 1).items, ["a", { b: "{{page.title}}" }]);
  await items.fill("{{page.content}} and more");
  await items.blur();
  await form.getByText("This is neither valid JSON nor one reference such as {{node.field}}.").waitFor();
  await change(page, async () => {
    await items.fill("");
    await form.getByRole("button", { name: "Insert a variable: Items" }).click();
  });
  text = await change(page, () => form.getByRole("button", { name: /^page\.content/ }).click());
  assert.equal(inputsOf(text, 1).items, "{{page.content}}");
  await assertAccessible(page);

  await select(page, "lines");
  await form.getByRole("button", { name: "Insert a variable: 1" }).click();
  text = await change(page, () => form.getByRole("button", { name: /^page\.content/ }).click());
  assert.match(inputsOf(text, 2).items[0], /\{\{page\.content\}\}/);
  await form.getByRole("button", { name: "Use a variable: Items" }).click();
  text = await change(page, () => form.getByRole("button", { name: /^page\.content/ }).click());
  assert.equal(inputsOf(text, 2).items, "{{page.content}}");
  await change(page, () => form.getByRole("button", { name: "Enter one by one: Items" }).click());
  text = await change(page, () => form.getByRole("button", { name: "Add an item" }).click());
  assert.deepEqual(inputsOf(text, 2).items, [""]);

  await form.getByRole("button", { name: "Use a variable: Ask model" }).click();
  text = await change(page, () => form.getByRole("button", { name: /^page\.content/ }).click());
  assert.equal(inputsOf(text, 2).ask_model, "{{page.content}}");
  await change(page, () => form.getByRole("button", { name: "Choose a value: Ask model" }).click());
  text = await change(page, () => form.getByRole("checkbox", { name: /^Ask model/ }).check());
  assert.equal(inputsOf(text, 2).ask_model, true);
  await assertAccessible(page);
  await closePage(opened);
});

test("all tools or some need approval", async () => {
  const opened = await open("clerk-2", { id: "clerk-2", name: "Clerk", systemPrompt: "Help." });
  const { page, form } = opened;
  const field = form.getByRole("combobox", { name: /^Needs approval/ });
  if (!(await field.isVisible())) await form.getByText("More fields").first().click();
  let text = await change(page, () => field.selectOption("All"));
  assert.equal(text.needsApproval, true);
  text = await change(page, () => field.selectOption("Only some"));
  assert.deepEqual(text.needsApproval, []);
  await change(page, () => form.getByRole("button", { name: "Add an item" }).last().click());
  text = await change(page, () => form.getByRole("textbox", { name: /^1/ }).last().fill("search"));
  assert.deepEqual(text.needsApproval, ["search"]);
  await assertAccessible(page);
  text = await change(page, () => field.selectOption("not set"));
  assert.equal(text.needsApproval, undefined);
  await closePage(opened);
});

test("a request shows the fields of its method, which keep their places", async () => {
  const config = { url: "https://example.com/", method: "GET" };
  const steps = [
    { type: "start", config: { variables: [{ name: "topic", value: "cats" }] } },
    { type: "apiCall", config },
    { type: "webScraping", config: { url: "https://example.com/", captureAs: "text" } },
  ];
  const opened = await open("request", { name: "Request", steps });
  const { page, form } = opened;
  await select(page, "API call");
  const body = form.getByRole("textbox", { name: "Body", exact: true });
  const type = form.getByRole("combobox", { name: "Body type" });
  const formData = form.getByRole("group", { name: "Form data" });
  assert.deepEqual([await body.count(), await type.count(), await formData.count()], [0, 0, 0]);
  await change(page, () => form.getByRole("combobox", { name: "Method" }).fill("POST"));
  await body.waitFor();
  await type.waitFor();
  await change(page, () => type.selectOption("form"));
  await formData.waitFor();
  assert.equal(await body.count(), 0);
  await change(page, () => type.selectOption("text"));
  await body.waitFor();

  // The click that leaves a field finds what it aims at.
  await form.getByText("More fields").click();
  const result = form.getByRole("textbox", { name: "Response variable" });
  await result.fill("answer");
  const place = await result.elementHandle();
  await change(page, () => form.getByRole("button", { name: "Insert a variable: Body" }).click());
  await form.getByRole("button", { name: /^topic/ }).waitFor();
  assert.ok(await place.evaluate((element) => element.isConnected));

  await select(page, "Web scraping");
  const selector = form.getByRole("textbox", { name: "Query selector" });
  assert.equal(await selector.count(), 0);
  await change(page, () => form.getByRole("combobox", { name: "Capture as" }).selectOption("querySelector"));
  await selector.waitFor();
  await assertAccessible(page);
  await closePage(opened);
});

test("only what runs offers to run alone", async () => {
  const nodes = [
    { id: "first", nodeType: "AGENT", nodeName: "First", agentId: "helper" },
    { id: "person", nodeType: "HUMAN_HANDOFF", nodeName: "Person" },
  ];
  const edges = [{ sourceNodeId: "first", targetNodeId: "person", conditionType: "ALWAYS" }];
  const agents = [{ id: "helper", name: "Helper", systemPrompt: "Help." }];
  const workflow = { id: "desk", name: "Desk", entrypointNodeId: "first", nodes, edges };
  const opened = await open("desk", { workflow, agents });
  const { page, form } = opened;
  const run = form.getByRole("button", { name: "Run this step" });
  await select(page, "First");
  await run.waitFor();
  await select(page, "First → Person");
  await form.getByRole("combobox", { name: /^Condition type/ }).waitFor();
  assert.equal(await run.count(), 0);
  await select(page, "Helper");
  await form.getByRole("textbox", { name: /^System prompt/ }).waitFor();
  assert.equal(await run.count(), 0);
  await closePage(opened);
});
