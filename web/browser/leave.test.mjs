// Changes of a workflow in a browser: they are not lost by leaving, can be kept as a draft, and a workflow is deleted.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
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

function definitionOf(id, promptTemplate) {
  const step = {
    name: "a",
    functionId: "agent::chat",
    mode: "sequential",
    promptTemplate,
    errorMode: "fail",
  };
  return { id, name: "Kept", steps: [step] };
}

async function storeWorkflow(id, prompt) {
  const response = await fetch(`${studio.address}/api/v1/workflows/${id}`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(definitionOf(id, prompt)),
  });
  assert.ok(response.ok, await response.text());
}

/** Opens a workflow, and replaces its text. */
async function change(page, id, prompt) {
  await page.goto(studio.address);
  await page.locator(`a[href$="/workflows/${id}"]`).click();
  await page.getByRole("tab", { name: "Source" }).first().click();
  await page.getByRole("textbox", { name: /Source of/ }).click();
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.keyboard.insertText(JSON.stringify(definitionOf(id, prompt)));
  await page.getByText("Unsaved changes").waitFor();
}

function readSource(page) {
  return page.evaluate(() => document.querySelector(".editor")?.shadowRoot.textContent);
}

test("whoever leaves with unsaved changes is asked first", async () => {
  await storeWorkflow("asked", "one");
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await change(page, "asked", "two");
  await page.getByRole("link", { name: "Runs" }).click();
  const dialog = page.getByRole("dialog", { name: "Leave without saving?" });
  await dialog.getByRole("button", { name: "Stay" }).click();
  await dialog.waitFor({ state: "detached" });
  assert.match(page.url(), /workflows\/asked/);
  assert.match(await readSource(page), /two/);
  // The browser asks before the tab is closed or loaded again.
  const asked = new Promise((resolve) => page.once("dialog", resolve));
  // Not `page.reload()`, which would wait for a page that never comes.
  await page.evaluate(() => void setTimeout(() => window.location.reload()));
  const question = await asked;
  assert.equal(question.type(), "beforeunload");
  await question.dismiss();
  await page.evaluate(() => window.history.back());
  await dialog.getByRole("button", { name: "Leave without saving" }).click();
  await page.waitForURL((address) => !address.pathname.includes("/workflows/"));
  await closePage(opened);
});

test("changes that were taken back are not asked about", async () => {
  await storeWorkflow("back", "one");
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/workflows/back`);
  await page.getByRole("textbox", { name: /Source of/ }).click();
  await page.keyboard.type("x");
  await page.getByText("Unsaved changes").waitFor();
  await page.keyboard.press("Control+z");
  await page.getByText("Unsaved changes").waitFor({ state: "detached" });
  await page.getByRole("link", { name: "Runs" }).click();
  await page.waitForURL(/\/runs/);
  await closePage(opened);
});

test("a workflow without errors is kept as a draft, which is there again and can be saved or discarded", async () => {
  await storeWorkflow("draft", "one");
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await change(page, "draft", "two");
  await page.getByRole("button", { name: "Keep as draft" }).click();
  await page.getByText(/^Draft of .*, kept in this browser$/).waitFor();
  await page.getByRole("link", { name: "Home" }).click();
  await page.getByRole("heading", { name: "Kept" }).first().waitFor();
  await page.goto(`${studio.address}/workflows/draft`);
  await page.getByText(/^Draft of/).waitFor();
  await page.waitForFunction(() =>
    document.querySelector(".editor")?.shadowRoot?.textContent.includes("two"),
  );
  const readStored = async () =>
    (await fetch(`${studio.address}/api/v1/workflows/draft/source`)).json().then(JSON.stringify);
  assert.match(await readStored(), /one/);
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("Saved", { exact: true }).waitFor();
  assert.match(await readStored(), /two/);
  await change(page, "draft", "three");
  await page.getByRole("button", { name: "Keep as draft" }).click();
  await page.getByRole("button", { name: "Discard the changes" }).click();
  await page.waitForFunction(() =>
    document.querySelector(".editor")?.shadowRoot?.textContent.includes("two"),
  );
  await page.reload();
  await page.getByRole("textbox", { name: /Source of/ }).waitFor();
  assert.equal(await page.getByText(/^Draft of/).count(), 0);
  await closePage(opened);
});

test("a workflow is deleted after a question", async () => {
  await storeWorkflow("doomed", "one");
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await change(page, "doomed", "two");
  await page.getByRole("button", { name: "Delete the workflow" }).click();
  const dialog = page.getByRole("dialog", { name: "Delete Kept?" });
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Delete the workflow" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.waitForURL(`${studio.address}/`);
  assert.equal((await fetch(`${studio.address}/api/v1/workflows/doomed`)).status, 404);
  await page.getByRole("heading", { name: "Echo a topic" }).waitFor();
  await page.locator('.card a[href$="/workflows/doomed"]').waitFor({ state: "detached" });
  // It is taken back at once, or later at its address.
  await page.getByRole("status").getByRole("button", { name: "Undo" }).click();
  await page.locator('.card a[href$="/workflows/doomed"]').waitFor();
  await page.locator('.card a[href$="/workflows/doomed"]').click();
  await page.getByRole("button", { name: "Delete the workflow" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.waitForURL(`${studio.address}/`);
  await page.getByText("1 deleted workflow").click();
  await page.getByRole("link", { name: "doomed" }).click();
  await page.getByRole("heading", { name: "This workflow was deleted" }).waitFor();
  await page.getByRole("button", { name: "Restore it" }).click();
  await page.getByRole("heading", { name: "Kept" }).waitFor();
  assert.equal((await fetch(`${studio.address}/api/v1/workflows/doomed`)).status, 200);
  // The browser notes what was not found.
  opened.faults.splice(0, Infinity, ...opened.faults.filter((fault) => !/status of 404/.test(fault)));
  await closePage(opened);
});

test("typing over coloured text breaks no rule of the page, and keeps brackets around a selection", async () => {
  await storeWorkflow("typed", "one");
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/workflows/typed`);
  await page.getByRole("textbox", { name: /Source of/ }).click();
  await page.waitForFunction(
    () => document.querySelector(".editor")?.shadowRoot?.querySelectorAll(".cm-line span").length > 3,
  );
  await page.keyboard.press("Control+a");
  await page.keyboard.type("ab");
  await page.keyboard.press("Control+a");
  await page.keyboard.type("[");
  const line = () => document.querySelector(".editor")?.shadowRoot.querySelector(".cm-content").textContent;
  assert.equal(await page.evaluate(line), "[ab]");
  // Letters that are typed slowly are taken back one by one.
  for (let taken = 0; taken < 3 && !(await page.evaluate(line)).includes("promptTemplate"); taken += 1) {
    await page.keyboard.press("Control+z");
  }
  assert.match(await page.evaluate(line), /promptTemplate/);
  await page.getByText("Unsaved changes").waitFor({ state: "detached" });
  await closePage(opened);
});

test("unsaved changes outlive the tab: they are offered again, and the card says so", async () => {
  await storeWorkflow("crashed", "one");
  const opened = await openPage(browser, studio.address);
  const { page, context } = opened;
  await change(page, "crashed", "two");
  await page.waitForFunction(() => Object.keys(localStorage).some((key) => /^unsaved .* crashed /.test(key)));
  // A tab that ends asks nobody.
  await page.close({ runBeforeUnload: false });
  const again = await context.newPage();
  await again.goto(studio.address);
  await again.locator(".card", { hasText: "Kept" }).getByText("Unsaved changes").waitFor();
  await again.goto(`${studio.address}/workflows/crashed`);
  await again.getByText(/This browser has changes of .* that were not saved/).waitFor();
  await again.getByRole("button", { name: "Restore them" }).click();
  await again.waitForFunction(() =>
    document.querySelector(".editor")?.shadowRoot?.textContent.includes("two"),
  );
  await again.getByText("Unsaved changes").waitFor();
  await again.getByRole("button", { name: "Save", exact: true }).click();
  await again.getByText("Saved", { exact: true }).waitFor();
  assert.equal(
    await again.evaluate(() => Object.keys(localStorage).some((key) => key.startsWith("unsaved"))),
    false,
  );
  await closePage(opened);
});

test("discarded changes do not come back, and what another tab went on with stays", async () => {
  await storeWorkflow("shared-tabs", "stored");
  const opened = await openPage(browser, studio.address);
  const { page: one, context } = opened;
  const readKept = () => {
    const keys = Object.keys(localStorage).filter((key) => /^unsaved .* shared-tabs /.test(key));
    return keys.map((key) => /of \w+(?: later)?/.exec(localStorage[key])?.[0]).sort();
  };
  const waitForKept = async (page, ...texts) => {
    for (let tries = 0; tries < 100; tries++) {
      if (`${await page.evaluate(readKept)}` === `${texts}`) return;
      await page.waitForTimeout(100);
    }
    assert.deepEqual(await page.evaluate(readKept), texts);
  };
  await change(one, "shared-tabs", "of one");
  await waitForKept(one, "of one");
  const other = await context.newPage();
  await change(other, "shared-tabs", "of other");
  await waitForKept(other, "of one", "of other");
  // The offer of the other tab's changes does not keep those that are discarded here.
  await other.getByRole("button", { name: "Discard the changes" }).click();
  await waitForKept(other, "of one");
  await other.getByRole("button", { name: "Restore them" }).click();
  await other.waitForFunction(() =>
    document.querySelector(".editor")?.shadowRoot?.textContent.includes("of one"),
  );
  await one.bringToFront();
  await one.getByRole("textbox", { name: /Source of/ }).click();
  await one.keyboard.press("Control+a");
  await one.keyboard.insertText(JSON.stringify(definitionOf("shared-tabs", "of one later")));
  await waitForKept(one, "of one", "of one later");
  await other.bringToFront();
  await other.getByRole("button", { name: "Save", exact: true }).click();
  await other.getByText("Saved", { exact: true }).waitFor();
  await waitForKept(other, "of one later");
  await closePage(opened);
});
