// What people read: names of steps in their words, what a run used, and texts that do not fit.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
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

/** A step list with a long name, and a step with another one. */
async function storeLong(name, stepName) {
  const step = {
    functionId: "agent::chat",
    mode: "sequential",
    errorMode: "fail",
    promptTemplate: "{{input}}",
  };
  const steps = [
    { name: stepName, ...step },
    { name: "short", ...step },
  ];
  const body = JSON.stringify({ id: "long", name, steps });
  const headers = { "content-type": "application/json" };
  await fetch(`${studio.address}/api/v1/workflows/long`, { method: "PUT", headers, body });
}

test("blocks of a flow have the same names in the builder, in the graph and in the steps of a run", async () => {
  const run = await startRun(studio.address, "echo", { topic: "tides" }, 20);
  const opened = await openPage(browser, studio.address, { view: "build" });
  const { page } = opened;
  await page.goto(`${studio.address}/workflows/echo`);
  const part = page.locator(".part").filter({ hasText: "LLM instruction" });
  await part.locator(".part-kind", { hasText: "sentence" }).waitFor();
  assert.deepEqual(
    await page.locator(".part", { hasText: "Start" }).locator(".part-text > span").allTextContents(),
    ["Start", "topic"],
  );
  const drawn = page.locator(".node").filter({ hasText: "LLM instruction" }).locator(".node-facts");
  assert.equal(await drawn.textContent(), "sentence");
  await page.goto(`${studio.address}/runs/${run}`);
  const node = page.locator(".node").filter({ hasText: "LLM instruction" });
  assert.match(await node.locator(".node-facts").textContent(), /^sentence · /);
  await page.getByRole("treeitem", { name: /^sentence · LLM instruction, Model/ }).click();
  await page
    .getByRole("region", { name: "Details" })
    .getByRole("heading", { name: "sentence · LLM instruction" })
    .waitFor();
  assert.equal(await page.getByText("llmInstruction").count(), 0);
  await closePage(opened);
});

test("members of a step that runs in parallel stand below a name in words", async () => {
  const run = await startRun(studio.address, "support-reply", "My lamp is broken", 30);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/runs/${run}`);
  await page.getByRole("treeitem", { name: /^Parallel, / }).waitFor();
  await closePage(opened);
});

test("the table of runs shows tokens and cost of each run, from the list alone", async () => {
  await startRun(studio.address, "echo", { topic: "tides" }, 20);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  const asked = [];
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  await page.goto(`${studio.address}/runs`);
  const row = page.locator(".runs-table tbody tr").filter({ hasText: "Echo a topic" }).first();
  await row.waitFor();
  const titles = await page.locator(".runs-table thead th").allTextContents();
  const cells = await row.locator("td").allTextContents();
  const cellOf = (title) => cells[titles.indexOf(title)];
  assert.match(cellOf("Tokens"), /^\d+$/);
  // The model of the tests has no price.
  assert.equal(cellOf("Cost"), "unknown");
  assert.match(await row.locator("td[title*=' in, ']").getAttribute("title"), /^\d+ in, \d+ out$/);
  assert.equal(asked.filter((path) => /\/runs\/./.test(path) && path.startsWith("/api/")).length, 0);
  await closePage(opened);
});

test("a text that does not fit is shown when it is pointed at, and names of workflows are not cut", async () => {
  const name = "A workflow whose name does not fit into one line of the cards of the first page";
  const step = "a step whose name does not fit into its node";
  await storeLong(name, step);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(studio.address);
  const heading = page.getByRole("heading", { name, exact: true });
  assert.ok(await heading.evaluate((element) => element.scrollWidth <= element.clientWidth));
  await page.goto(`${studio.address}/workflows/long`);
  const title = page.locator(".node-title", { hasText: step });
  await title.waitFor();
  assert.equal(await title.getAttribute("title"), null);
  await title.hover();
  assert.equal(await title.getAttribute("title"), step);
  const short = page.locator(".node-title", { hasText: "short" });
  await short.hover();
  assert.equal(await short.getAttribute("title"), null);
  await closePage(opened);
});

test("on a narrow screen the header of a run shows its whole name and its whole error", async () => {
  const failed = await startRun(studio.address, "broken", "Ada", 20);
  const waiting = await startRun(studio.address, "support-reply", "My lamp is broken", 30);
  const opened = await openPage(browser, studio.address, { viewport: { width: 390, height: 844 } });
  const { page } = opened;
  const isWhole = (element) => element.scrollWidth <= element.clientWidth;
  await page.goto(`${studio.address}/runs/${waiting}?at=5`);
  await page.getByText(/^At event 5/).waitFor();
  assert.ok(await page.locator(".run-title h1").evaluate(isWhole), "the name is cut");
  await page.goto(`${studio.address}/runs/${failed}`);
  const cause = page.getByRole("button", { name: /^second: / });
  assert.ok(await cause.evaluate(isWhole), "the error is cut");
  await closePage(opened);
});
