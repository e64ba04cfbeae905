// The forms of the builder for somebody who does not read the source.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { AxeBuilder } from "@axe-core/playwright";
import { closePage, openBrowser, openPage, startRun, startStudio } from "./studio.mjs";

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

/** Stores a workflow of one file, and opens it in the builder. */
async function open(id, entry, text, options) {
  const response = await fetch(`${studio.address}/api/v1/workflows/${id}`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ entry, files: { [entry]: text } }),
  });
  assert.ok(response.ok, await response.text());
  const opened = await openPage(browser, studio.address, { view: "build", ...options });
  opened.page.setDefaultTimeout(10_000);
  await opened.page.goto(`${studio.address}/workflows/${id}`);
  await opened.page.getByRole("button", { name: /^Definition/ }).waitFor();
  return { ...opened, form: opened.page.getByRole("region", { name: "Form" }) };
}

const select = (page, title) => page.locator(".part", { hasText: title }).first().click();

/** Does something that changes the definition, and waits for the change. */
async function change(page, action) {
  const answered = page.waitForResponse((response) => response.url().endsWith("/definitions/edit"));
  await action();
  assert.equal((await answered).status(), 200);
}

test("a blank in front of an inserted variable stays", async () => {
  const text =
    '---\ntitle: Letter\ninput:\n  customer:\n    type: text\n---\n\nHi.\n\n<GenText as="letter" model="house:small" />\n';
  const opened = await open("letter", "letter.mdx", text);
  const { page, form } = opened;
  await select(page, "letter");
  const field = form.getByLabel(/^Text/).first();
  await change(page, async () => {
    await field.fill("Dear ");
    await form.getByRole("button", { name: "Insert a variable: Text" }).click();
  });
  await change(page, () => form.getByRole("button", { name: /^customer\b/ }).click());
  assert.equal(await field.inputValue(), "Dear {customer}");
  await closePage(opened);
});

/** axe finds nothing in a part of the page. */
async function assertAccessible(page, selector) {
  const { violations } = await new AxeBuilder({ page }).include(selector).analyze();
  assert.deepEqual(
    violations.map((violation) => [violation.id, violation.nodes.map((node) => node.html)]),
    [],
  );
}

test("a step with unsaved changes is saved and run, under its name", async () => {
  const text =
    '---\ntitle: Note\n---\n\nquick: repeat: An old text\n\n<GenText as="note" model="house:small" />\n';
  const opened = await open("note", "note.mdx", text);
  const { page, form } = opened;
  await select(page, "note");
  const field = form.getByLabel(/^Text/).first();
  await change(page, async () => {
    await field.fill("quick: repeat: A new text");
    await field.blur();
  });
  await form.getByRole("button", { name: "Run this step" }).click();
  const dialog = page.getByRole("dialog", { name: "Run only note" });
  await dialog.getByRole("heading", { name: "Run only note", exact: true }).waitFor();
  await dialog.getByText("You have unsaved changes.").waitFor();
  await dialog.getByRole("button", { name: "Run the saved step" }).waitFor();
  await assertAccessible(page, "dialog[open]");
  await dialog.getByRole("button", { name: "Save and run the step" }).click();
  await page.waitForURL(/\/runs\//);
  await page.getByText("A new text").first().waitFor();
  await closePage(opened);
});

test("a variable that was just inserted has the value of the last run when its step runs alone", async () => {
  const text = `---
title: Chain
---

quick: repeat: blue

<GenText as="colour" model="house:small" />

quick: repeat: nothing

<GenText as="note" model="house:small" />
`;
  const opened = await open("chain", "chain.mdx", text);
  const { page, form } = opened;
  await startRun(studio.address, "chain", {}, 30);
  await page.reload();
  await page.getByRole("button", { name: /^Definition/ }).waitFor();
  await select(page, "note");
  const field = form.getByLabel(/^Text/).first();
  await change(page, async () => {
    await field.fill("quick: repeat: The sky is {colour}");
    await field.blur();
  });
  await form.getByRole("button", { name: "Run this step" }).click();
  const dialog = page.getByRole("dialog", { name: "Run only note" });
  assert.equal(await dialog.getByLabel("colour").inputValue(), "blue");
  await dialog.getByRole("button", { name: "Save and run the step" }).click();
  await page.waitForURL(/\/runs\//);
  await page.getByText("The sky is blue").first().waitFor();
  await closePage(opened);
});

test("an input shows the fields of its type", async () => {
  const text =
    '---\ntitle: Colours\ninput:\n  colour:\n    type: text\n---\n\nHi.\n\n<GenText as="answer" model="house:small" />\n';
  const opened = await open("colours", "colours.mdx", text);
  const { page, form } = opened;
  const options = form.getByRole("group", { name: "Options", exact: true });
  const type = form.getByLabel(/^Type/).first();
  if (!(await type.isVisible())) await form.getByText("More fields").first().click();
  await type.waitFor();
  assert.equal(await options.isVisible(), false);
  await change(page, () => type.selectOption("select"));
  await options.waitFor();
  await assertAccessible(page, ".builder-form");
  await closePage(opened);
});

test("a model that is not set up says what it lacks", async () => {
  const text = '---\ntitle: Lacks\n---\n\nHi.\n\n<GenText as="answer" model="anthropic:some-model" />\n';
  const opened = await open("lacks", "lacks.mdx", text);
  const { page, form } = opened;
  await select(page, "answer");
  await form.locator(".field-warning", { hasText: "ANTHROPIC_API_KEY" }).waitFor();
  await assertAccessible(page, ".builder-form");
  await form.getByRole("combobox", { name: "Model" }).fill("house:small");
  await form.getByRole("combobox", { name: "Model" }).press("Tab");
  await form.locator(".field-warning").waitFor({ state: "detached" });
  await closePage(opened);
});

test("the list of models is whole where its field is low", async () => {
  const text = '---\ntitle: Low\n---\n\nHi.\n\n<GenText as="answer" model="house:small" />\n';
  const opened = await open("low", "low.mdx", text, { viewport: { width: 1280, height: 420 } });
  const { page, form } = opened;
  await select(page, "answer");
  const model = form.getByRole("combobox", { name: "Model" });
  await model.evaluate((field) => field.scrollIntoView({ block: "end" }));
  await form.getByRole("button", { name: "Show models" }).click();
  const list = form.getByRole("listbox", { name: "Model" });
  const box = await list.boundingBox();
  assert.ok(box && box.y >= 0 && box.y + box.height <= 420, JSON.stringify(box));
  const option = list.getByRole("option").first();
  const isOnTop = await option.evaluate((one) => {
    const { left, top, height } = one.getBoundingClientRect();
    return one.contains(document.elementFromPoint(left + 20, top + height / 2));
  });
  assert.ok(isOnTop, "nothing covers the first option");
  await assertAccessible(page, ".builder-form");
  await closePage(opened);
});

test("the first action of a container has a node of its own, which opens it", async () => {
  const text = `---
title: Rounds
---

<Loop as="rounds" max={2} until={$.index === 2}>
  Write a line.

  <GenText as="line" model="local:smollm2-135m" />
</Loop>
`;
  const opened = await open("rounds", "rounds.mdx", text);
  const { page, form } = opened;
  await page.locator(".node", { hasText: "line" }).click();
  await form.getByRole("heading", { name: "line", exact: true }).waitFor();
  await page.locator(".node[data-selected]", { hasText: "line" }).waitFor();
  await closePage(opened);
});
