// Several people and programs at once: two inboxes, a file that changes on disk, a graph of a thousand steps.
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { openBrowser, openPage, startRun, startStudio } from "./studio.mjs";

let studio;
let browser;

before(async () => {
  const steps = Array.from({ length: 1000 }, (_, at) => ({
    name: `step${at}`,
    functionId: "agent::chat",
    mode: "sequential",
    errorMode: "fail",
    promptTemplate: "quick: x",
  }));
  const prepare = (folder) =>
    writeFile(join(folder, "big.json"), JSON.stringify({ id: "big", name: "Big", steps }));
  studio = await startStudio({ prepare });
  browser = await openBrowser();
});

after(async () => {
  await browser?.close();
  await studio?.close();
});

async function open(place) {
  const opened = await openPage(browser, studio.address);
  await opened.page.goto(`${studio.address}/${place}`);
  return opened;
}

test("what one person answered disappears from the inbox of the other", async () => {
  const run = await startRun(studio.address, "support-reply", "The lamp is broken.", 30);
  const [one, other] = [await open(`inbox?item=${run}`), await open(`inbox?item=${run}`)];
  for (const { page } of [one, other]) await page.getByRole("textbox").waitFor();
  await one.page.getByRole("textbox").fill("yes");
  await one.page.getByRole("button", { name: "Send answer" }).click();
  await other.page.getByText("Nothing waits for you").waitFor();
  for (const { context, faults } of [one, other]) {
    await context.close();
    assert.deepEqual(faults, []);
  }
});

test("an answer that comes second is refused, and the page shows what is there now", async () => {
  const run = await startRun(studio.address, "support-reply", "The lamp is broken.", 30);
  const { page, context } = await open(`inbox?item=${run}`);
  await page.getByRole("textbox").fill("no");
  const response = await fetch(`${studio.address}/api/v1/runs/${run}/answer?wait=30`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ value: "yes" }),
  });
  assert.equal(response.status, 200);
  await page
    .getByRole("button", { name: "Send answer" })
    .click({ timeout: 5000 })
    .catch(() => undefined);
  await page.getByText("Nothing waits for you").waitFor();
  await context.close();
});

test("a file that changes on disk is followed", async () => {
  const opened = await open("workflows/echo");
  const { page } = opened;
  await page.getByText("This workflow is a file in the served folder").waitFor();
  const file = join(studio.folder, "echo.json");
  const text = await readFile(file, "utf8");
  await writeFile(file, text.replaceAll("one sentence about", "one short line about"));
  await page.waitForFunction(() =>
    document.querySelector(".editor")?.shadowRoot?.textContent.includes("one short line about"),
  );
  await opened.context.close();
  assert.deepEqual(opened.faults, []);
});

test("a graph of a thousand steps is drawn and moved", async () => {
  const opened = await open("workflows/big");
  const { page } = opened;
  await page.locator(".node").first().waitFor();
  // Only visible steps are drawn.
  assert.ok((await page.locator(".node").count()) < 1000);
  const pane = await page.locator(".react-flow__pane").boundingBox();
  const viewport = page.locator(".react-flow__viewport");
  const before = await viewport.getAttribute("style");
  await page.mouse.move(pane.x + 40, pane.y + 40);
  await page.mouse.down();
  await page.mouse.move(pane.x + 140, pane.y + 140, { steps: 10 });
  await page.mouse.up();
  assert.notEqual(await viewport.getAttribute("style"), before);
  await opened.context.close();
  assert.deepEqual(opened.faults, []);
});
