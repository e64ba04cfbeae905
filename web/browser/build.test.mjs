// Workflows of every format are built with forms only, and run with the model of the tests.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { AxeBuilder } from "@axe-core/playwright";
import { closePage, findViolations, openBrowser, openPage, startStudio } from "./studio.mjs";

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

/** Creates a workflow on the page. */
async function create(page, format, id) {
  page.setDefaultTimeout(10_000);
  await page.goto(`${studio.address}/new?format=${format}`);
  await page.getByLabel("Name of the new workflow").fill(id);
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByRole("button", { name: /^Definition/ }).waitFor();
}

const form = (page) => page.getByRole("region", { name: "Form" });

/** Selects a part by a text that it shows: its title, if no other is given. */
async function selectPart(page, text, title = text) {
  await page.locator(".part", { hasText: text }).first().click();
  await form(page).getByRole("heading", { name: title, exact: true }).waitFor();
}

/** Adds a part of a kind to a list. */
async function addPart(page, list, kind) {
  await page.getByRole("button", { name: `Add ${list}`, exact: true }).click();
  await page.getByRole("searchbox", { name: "Search kinds" }).fill(kind);
  await change(page, () => page.keyboard.press("Enter"));
  await page.waitForTimeout(100);
}

/** The field with a label. */
const fieldOf = (page, label) =>
  form(page)
    .getByLabel(new RegExp(`^${label}( \\(required\\))?$`))
    .first();

/** Does something that changes the definition, and waits for the change. */
async function change(page, action) {
  const answered = page.waitForResponse((response) => response.url().endsWith("/definitions/edit"));
  await action();
  assert.equal((await answered).status(), 200);
}

async function fill(page, label, text) {
  const field = fieldOf(page, label);
  await change(page, async () => {
    await field.fill(text);
    await field.blur();
  });
}

/** The text of the definition. Only a shown editor draws it. */
async function readSource(page) {
  await page.getByRole("tab", { name: "Source" }).click();
  await page.locator(".editor .cm-line").first().waitFor();
  const text = await page.locator(".editor .cm-line").allInnerTexts();
  await page.getByRole("tab", { name: "Build" }).click();
  return text.join("\n");
}

/** Saves and runs on the page, and returns the run once it has ended. */
async function saveAndRun(page, fillInputs) {
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("Saved", { exact: true }).first().waitFor();
  await page.getByRole("button", { name: "Run", exact: true }).click();
  const dialog = page.locator("dialog[open]");
  await dialog.waitFor();
  await fillInputs?.(dialog);
  await dialog
    .getByRole("button", { name: /Start|Run/ })
    .last()
    .click();
  await page.waitForURL(/runs\//);
  const id = new URL(page.url()).pathname.split("/").at(-1);
  const address = `${studio.address}/api/v1/runs/${id}`;
  let run = await (await fetch(address)).json();
  while (run.status === "running") {
    await page.waitForTimeout(100);
    run = await (await fetch(address)).json();
  }
  assert.equal(run.status, "succeeded", JSON.stringify(run));
  return JSON.stringify(run);
}

test("a step list", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await create(page, "steps", "build-steps");
  await selectPart(page, "answer");
  await fill(page, "Prompt template", "quick: What is this message about? Answer with three words.");
  await addPart(page, "step", "sequential");
  await selectPart(page, "answer_2");
  await form(page)
    .getByRole("button", { name: /Insert a variable/ })
    .click();
  await change(page, () =>
    form(page)
      .getByRole("button", { name: /^answer\b/ })
      .first()
      .click(),
  );
  await fill(page, "Prompt template", "quick: repeat: Topic: {{answer}}");
  const text = await saveAndRun(page, (dialog) => dialog.getByRole("textbox").first().fill("A broken lamp."));
  assert.match(text, /Topic: a broken lamp/);
  await closePage(opened);
});

test("an agent flow", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await create(page, "flow", "build-flow");
  await addPart(page, "step", "start");
  await change(page, () => page.getByRole("button", { name: "Move up" }).click());
  await fill(page, "Name", "place");
  await fill(page, "Value", "Oslo");
  await selectPart(page, "LLM instruction");
  await fill(page, "Instruction", "quick: repeat: Greetings from ${place}");
  await change(page, () =>
    form(page)
      .getByLabel(/^Direct output/)
      .check(),
  );
  const text = await saveAndRun(page);
  assert.match(text, /Greetings from Oslo/);
  await closePage(opened);
});

test("a pipeline", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await create(page, "pipeline", "build-pipeline");
  await selectPart(page, "Ask the model");
  await fill(page, "Prompt template", "quick: repeat: {text}");
  await selectPart(page, "n1", "ask_model");
  await fill(page, "Text", '{"answer": "It is calm"}');
  await addPart(page, "block", "python");
  await form(page).getByRole("heading", { name: "Run code" }).waitFor();
  await addPart(page, "node", "run code");
  await form(page).getByRole("heading", { name: "run_code" }).waitFor();
  await form(page)
    .getByRole("button", { name: /Insert a variable/ })
    .first()
    .click();
  const variable = form(page).getByRole("button", { name: /n1\.answer/ });
  assert.match(await variable.textContent(), /^n1\.answerstring, /);
  await change(page, () => variable.click());
  await selectPart(page, "n1", "ask_model");
  await form(page).getByLabel("Connect to").selectOption({ label: "n2 · run_code" });
  await form(page).getByRole("button", { name: "Connect", exact: true }).click();
  await page.getByText("n1 → n2").waitFor();
  await saveAndRun(page);
  await closePage(opened);
});

test("an agent graph", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await create(page, "graph", "build-graph");
  await selectPart(page, "Assistant");
  await form(page).getByLabel("Connect to").selectOption({ label: "End of the graph" });
  await form(page).getByRole("button", { name: "Connect", exact: true }).click();
  await page.getByText("Assistant → end").click();
  await change(page, () => fieldOf(page, "Condition type").selectOption("ALWAYS"));
  await page.getByRole("button", { name: "Assistant Agent" }).last().click();
  await fill(page, "System prompt", "You answer letters.");
  const text = await saveAndRun(page, (dialog) =>
    dialog.getByRole("textbox").first().fill("quick: repeat: Good morning"),
  );
  assert.match(text, /Good morning/);
  await closePage(opened);
});

test("a Markdown workflow", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await create(page, "markdown", "build-markdown");
  await selectPart(page, "answer");
  await fill(page, "Text", "quick: repeat: The lamp is repaired");
  await addPart(page, "action", "GenText");
  await fill(page, "As", "letter");
  await fill(page, "Text", "quick: repeat: A letter");
  await page.getByRole("button", { name: /^Definition/ }).click();
  await fill(page, "After", "Result: {answer}, {letter}");
  const text = await saveAndRun(page);
  assert.match(text, /Result: The lamp is repaired/);
  await closePage(opened);
});

test("an agent", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await create(page, "agent", "build-agent");
  await fill(page, "System prompt", "You answer letters in a friendly tone.");
  await form(page).getByRole("button", { name: "Add an item" }).click();
  await fill(page, "1", "tool::web_fetch");
  const text = await saveAndRun(page, (dialog) =>
    dialog.getByRole("textbox").first().fill("quick: repeat: Good evening"),
  );
  assert.match(text, /Good evening/);
  await closePage(opened);
});

test("undo goes back to the beginning, and redo to the end", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await create(page, "steps", "build-undo");
  const first = await readSource(page);
  await addPart(page, "step", "fanout");
  await addPart(page, "step", "collect");
  await selectPart(page, "part");
  await page.getByRole("button", { name: "Duplicate" }).click();
  await form(page).getByRole("heading", { name: "part_2", exact: true }).waitFor();
  await page.getByRole("button", { name: "Move up" }).click();
  await fill(page, "Prompt template", "Another text");
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await form(page).getByRole("heading", { name: "Definition" }).waitFor();
  await page.waitForTimeout(300);
  const last = await readSource(page);
  assert.notEqual(first, last);
  const press = async (name) => {
    const button = page.getByRole("button", { name, exact: true });
    let count = 0;
    while (await button.isEnabled()) {
      await button.click();
      count += 1;
    }
    return count;
  };
  const undone = await press("Undo");
  assert.equal(await readSource(page), first);
  assert.equal(await press("Redo"), undone);
  assert.equal(await readSource(page), last);
  await closePage(opened);
});

test("a part is copied to another workflow, and not to one of another format", async () => {
  const opened = await openPage(browser, studio.address, {
    permissions: ["clipboard-read", "clipboard-write"],
  });
  const { page } = opened;
  await create(page, "steps", "build-copy");
  await selectPart(page, "answer");
  await page.getByRole("button", { name: "Copy", exact: true }).click();
  await page.getByText("Copied answer").waitFor();
  await create(page, "steps", "build-paste");
  await page.getByRole("button", { name: "Paste" }).click();
  await form(page).getByRole("heading", { name: "answer_2" }).waitFor();
  await create(page, "flow", "build-refused");
  await page.getByRole("button", { name: "Paste" }).click();
  await page.getByText("This is a part of the format Step list").waitFor();
  await closePage(opened);
});

test("a copied node takes its agent or its block along", async () => {
  const opened = await openPage(browser, studio.address, {
    view: "build",
    permissions: ["clipboard-read", "clipboard-write"],
  });
  const { page } = opened;
  const store = async (id, definition) => {
    const body = JSON.stringify({
      entry: `${id}.json`,
      files: { [`${id}.json`]: JSON.stringify(definition) },
    });
    const headers = { "content-type": "application/json" };
    const url = `${studio.address}/api/v1/workflows/${id}`;
    const response = await fetch(url, { method: "PUT", headers, body });
    assert.ok(response.ok, await response.text());
  };
  const graph = (id, agent) => ({
    workflow: {
      id,
      name: id,
      entrypointNodeId: agent,
      nodes: [{ id: agent, nodeType: "AGENT", nodeName: agent, agentId: `${agent}-agent` }],
      edges: [],
    },
    agents: [{ id: `${agent}-agent`, name: `The ${agent}`, systemPrompt: "Help." }],
  });
  const pipeline = (id, block) => ({
    pipeline: { id, name: id, nodes: [{ id: `${block}1`, block_id: block, inputs: {} }], edges: [] },
    blocks: [{ id: block, name: block, execution_type: "llm", prompt_template: "Hi.", input_schema: {} }],
  });
  const copyInto = async (from, title, into, list) => {
    await page.goto(`${studio.address}/workflows/${from}`);
    await page.locator(".part", { hasText: title }).first().click();
    await page.getByRole("button", { name: "Copy", exact: true }).click();
    await page.getByText(/^Copied/).waitFor();
    await page.goto(`${studio.address}/workflows/${into}`);
    await page.getByRole("button", { name: /^Definition/ }).waitFor();
    let text;
    // The second one finds what the first one brought.
    for (const count of [2, 3]) {
      const answered = page.waitForResponse((response) => response.url().endsWith("/definitions/edit"));
      await page.getByRole("button", { name: "Paste" }).click();
      text = JSON.parse((await (await answered).json()).text);
      await page.getByRole("heading", { name: `Nodes ${count}` }).waitFor();
    }
    return text[list].map(({ id }) => id);
  };
  page.setDefaultTimeout(10_000);
  await store("graph-a", graph("graph-a", "clerk"));
  await store("graph-b", graph("graph-b", "chief"));
  await store("pipe-a", pipeline("pipe-a", "greet"));
  await store("pipe-b", pipeline("pipe-b", "part"));
  assert.deepEqual(await copyInto("graph-a", "clerk", "graph-b", "agents"), ["chief-agent", "clerk-agent"]);
  assert.deepEqual(await copyInto("pipe-a", "greet", "pipe-b", "blocks"), ["part", "greet"]);
  await closePage(opened);
});

test("steps are added, moved and removed with keys", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await create(page, "steps", "build-keys");
  await page.getByRole("button", { name: /^Definition/ }).focus();
  await page.keyboard.press("ArrowDown");
  await form(page).getByRole("heading", { name: "answer", exact: true }).waitFor();
  await page.keyboard.press("Control+d");
  await form(page).getByRole("heading", { name: "answer_2" }).waitFor();
  await page.keyboard.press("Alt+ArrowUp");
  await page.waitForFunction(() => document.querySelectorAll(".part-title")[1].textContent === "answer_2");
  await page.keyboard.press("Delete");
  await page.waitForFunction(() => document.querySelectorAll(".part-title").length === 2);
  await page.keyboard.press("Control+z");
  await page.waitForFunction(() => document.querySelectorAll(".part-title").length === 3);
  await closePage(opened);
});

test("the editor completes, explains and fixes", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await create(page, "flow", "build-assist");
  await page.getByRole("tab", { name: "Source" }).click();
  const editor = page.getByRole("textbox", { name: /Source of/ });
  const text = `{
  "name": "Assist",
  "steps": [
    {"type": "start", "config": {"variables": [{"name": "city", "value": "Oslo"}]}},
    {"type": "apiCall", "config": {"url": "https://example.com", "method": "post", "body": "x", "headers": [], "responseVariable": "a"}}
  ]
}`;
  await editor.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.keyboard.insertText(text);
  await page.getByRole("button", { name: /^Fix: / }).click();
  await page.getByText("No problems").waitFor();
  await page.locator(".editor .cm-line", { hasText: '"method": "POST"' }).waitFor();
  await editor.click();
  await page.keyboard.press("Control+Home");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("End");
  await page.keyboard.insertText(' "d');
  await page.keyboard.press("Control+Space");
  await page.locator(".editor .cm-tooltip-autocomplete", { hasText: "description" }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+z");
  const key = page.locator(".editor .cm-line span", { hasText: '"responseVariable"' }).first();
  await key.hover();
  await page.locator(".editor .cm-tooltip-hover", { hasText: "receives the response" }).waitFor();
  await closePage(opened);
});

test("a workflow is exported, and started by a schedule and a webhook", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await create(page, "steps", "build-export");
  await page.getByRole("button", { name: "Export" }).click();
  await page.getByLabel("Format").selectOption("markdown");
  await page.getByText(/kept, .* lost/).waitFor();
  const saved = page.waitForEvent("download");
  await page.getByRole("button", { name: "Save file" }).click();
  assert.equal((await saved).suggestedFilename(), "build-export.mdx");
  await page.getByRole("button", { name: "Close" }).click();
  await page.getByRole("button", { name: "Triggers" }).click();
  await page.getByLabel("When").selectOption("Monday to Friday");
  await page.getByRole("button", { name: "Add schedule" }).click();
  await page.getByText(/next at/).waitFor();
  await page.getByRole("button", { name: "Add webhook" }).click();
  await page.getByText(/POST .*hooks\/build-export/).waitFor();
  const { violations } = await new AxeBuilder({ page }).analyze();
  assert.deepEqual(
    violations.map(({ id }) => id),
    [],
  );
  await page.getByRole("button", { name: "Delete build-export" }).first().click();
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByText("No schedules yet.").waitFor();
  await closePage(opened);
});

test("axe finds nothing in the builder in either theme", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  for (const format of ["pipeline", "markdown", "flow"]) {
    await create(page, format, `axe-${format}`);
    for (const place of ["definition", "part"]) {
      if (place === "part") await page.locator(".part").nth(1).click();
      await page.waitForTimeout(400);
      assert.deepEqual(await findViolations(page), [], `${format}, ${place}`);
    }
  }
  await closePage(opened);
});

test("the builder is no wider than a screen of 390 px", async () => {
  const opened = await openPage(browser, studio.address, { viewport: { width: 390, height: 844 } });
  const { page } = opened;
  await create(page, "pipeline", "build-narrow");
  for (const tab of ["Parts", "Graph", "Form"]) {
    await page.getByRole("tab", { name: tab }).click();
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(width <= 390, `${tab} is ${width} px wide`);
  }
  for (const name of ["Save", "Delete the workflow", "Run"]) {
    const box = await page.getByRole("button", { name, exact: true }).boundingBox();
    assert.ok(box && box.x >= 0 && box.x + box.width <= 390, `${name} is on the screen`);
  }
  await page.getByRole("tab", { name: "Parts" }).click();
  await page.locator(".part").nth(1).click();
  await form(page).getByRole("heading").first().waitFor();
  await closePage(opened);
});
