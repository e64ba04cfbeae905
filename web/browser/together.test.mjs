// Several people and programs at once: two inboxes, a file that changes on disk, a graph of a thousand steps.
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { closePage, openBrowser, openPage, startRun, startStudio } from "./studio.mjs";

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

async function answer(run, value) {
  const response = await fetch(`${studio.address}/api/v1/runs/${run}/answer?wait=30`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ value }),
  });
  assert.equal(response.status, 200);
}

async function readStatus(run) {
  return (await (await fetch(`${studio.address}/api/v1/runs/${run}`)).json()).status;
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
  await answer(run, "yes");
  await page
    .getByRole("button", { name: "Send answer" })
    .click({ timeout: 5000 })
    .catch(() => undefined);
  await page.getByText("Nothing waits for you").waitFor();
  await context.close();
});

test("someone who types while another person answers stays there, and answers nothing else", async () => {
  const approval = await startRun(studio.address, "clerk", { message: "Please echo tea" }, 30);
  const run = await startRun(studio.address, "support-reply", "The lamp is broken.", 30);
  const opened = await open(`inbox?item=${run}`);
  const { page } = opened;
  const field = page.getByRole("textbox");
  await field.waitFor();
  await page.keyboard.type("Please send ");
  await answer(run, "yes");
  await page.getByText("Answered by someone else").waitFor();
  await page.keyboard.type("it and say sorry. ");
  assert.equal(await field.inputValue(), "Please send it and say sorry. ");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("link", { name: "Next: Clerk" }).click();
  await page.getByRole("button", { name: "Approve" }).waitFor();
  await page.waitForFunction(() => document.activeElement.matches(".inbox-open"));
  await page.keyboard.press("Space");
  assert.equal(await readStatus(approval), "waiting");
  await closePage(opened);
});

test("the inbox is left and entered by keyboard, and keeps half an answer", async () => {
  const runs = [];
  for (const message of ["First.", "Second."]) {
    runs.push(await startRun(studio.address, "support-reply", message, 30));
  }
  const opened = await open(`inbox?item=${runs[0]}`);
  const { page } = opened;
  const field = page.getByRole("textbox");
  await field.waitFor();
  await page.keyboard.type("half");
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  await page.waitForURL(new RegExp(`item=${runs[1]}`));
  await page.waitForFunction(() => document.querySelector("textarea")?.value === "");
  await page.keyboard.press("k");
  await page.waitForURL(new RegExp(`item=${runs[0]}`));
  await page.waitForFunction(() => document.querySelector("textarea")?.value === "half");
  await page.keyboard.press("Enter");
  await page.keyboard.press("End");
  await page.keyboard.type(" an answer");
  assert.equal(await field.inputValue(), "half an answer");
  // An answer needs a content.
  await field.fill(" ");
  await page.keyboard.press("Control+Enter");
  await page.getByText("Enter something for").waitFor();
  assert.equal(await readStatus(runs[0]), "waiting");
  await field.fill("yes");
  await page.keyboard.press("Control+Enter");
  await page.getByText("Answered.", { exact: true }).waitFor();
  await page.waitForFunction(() => document.activeElement.textContent.startsWith("Next: "));
  await closePage(opened);
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

test("a long graph is readable, has a map, and brings the selected step into view", async () => {
  const opened = await open("workflows/big");
  const { page } = opened;
  await page.locator(".node").first().waitFor();
  const viewport = page.locator(".react-flow__viewport");
  const scaleOf = async () => Number(/scale\(([\d.]+)\)/.exec(await viewport.getAttribute("style"))?.[1]);
  assert.ok((await scaleOf()) >= 0.55, `scale ${await scaleOf()}`);
  await page.getByRole("img", { name: "Map of the graph" }).waitFor();
  const node = page.locator(".node", { hasText: /^step70\D/ });
  assert.equal(await node.count(), 0);
  await page.goto(`${page.url().split("?")[0]}?view=source&step=%2Fstep70`);
  await node.waitFor();
  const box = await node.boundingBox();
  const pane = await page.locator(".react-flow").boundingBox();
  assert.ok(box.y >= pane.y && box.y + box.height <= pane.y + pane.height, JSON.stringify({ box, pane }));
  await page.setViewportSize({ width: 390, height: 800 });
  await page.getByRole("img", { name: "Map of the graph" }).waitFor({ state: "hidden" });
  await closePage(opened);
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
