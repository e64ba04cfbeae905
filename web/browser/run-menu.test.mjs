// The menu with the actions of a run: by pointer and by keyboard.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { chooseAction, closePage, openBrowser, openPage, startRun, startStudio } from "./studio.mjs";

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

async function openRun(run) {
  const opened = await openPage(browser, studio.address);
  await opened.page.goto(`${studio.address}/runs/${run}`);
  await opened.page.getByRole("tree").waitFor();
  return opened;
}

const items = (page) => page.getByRole("menuitem").locator("span").allInnerTexts();
const focused = (page) => page.evaluate(() => document.activeElement.textContent);

test("a key opens the menu, the arrow keys and letters move in it, Escape closes it", async () => {
  const run = await startRun(studio.address, "broken", "Ada", 30);
  const opened = await openRun(run);
  const { page } = opened;
  const position = await page.getByTestId("position").textContent();
  await page.keyboard.press(".");
  await page.getByRole("menu", { name: "Actions" }).waitFor();
  assert.deepEqual(await items(page), [
    "Retry",
    "Fork with other inputs",
    "Verify by replay",
    "Save as test",
    "Compare with another run",
    "Open workflow",
    "Copy link",
    "Copy id",
    "Save events as JSON",
    "Delete run",
  ]);
  assert.equal(await focused(page), "Retry");
  await page.keyboard.press("ArrowUp");
  assert.equal(await focused(page), "Delete run");
  await page.keyboard.press("f");
  assert.equal(await focused(page), "Fork with other inputs");
  // The keys of the page, such as those of the scrubber, rest meanwhile.
  await page.keyboard.press("ArrowLeft");
  assert.equal(await page.getByTestId("position").textContent(), position);
  await page.keyboard.press("Escape");
  assert.equal(await page.getByRole("menu").count(), 0);
  assert.equal(await focused(page), "Actions");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog", { name: "Fork with other inputs" }).waitFor();
  await closePage(opened);
});

test("what is not possible yet says why, and a click elsewhere closes the menu", async () => {
  const run = await startRun(studio.address, "support-reply", "The lamp arrived broken.", 30);
  const opened = await openRun(run);
  const { page } = opened;
  await page.getByRole("button", { name: "Actions", exact: true }).click();
  const replay = page.getByRole("menuitem", { name: "Verify by replay When the run has ended" });
  assert.equal(await replay.getAttribute("aria-disabled"), "true");
  await replay.click({ force: true });
  await page.getByRole("menu").waitFor();
  await page.getByRole("tree").click({ position: { x: 5, y: 5 } });
  assert.equal(await page.getByRole("menu").count(), 0);
  await chooseAction(page, "Cancel run");
  await page.getByRole("dialog").getByRole("button", { name: "Cancel run" }).click();
  await page.locator(".run-header").getByText("Cancelled").waitFor();
  await closePage(opened);
});

test("a run that has ended is deleted after a question, alone or with others", async () => {
  const runs = [];
  for (const topic of ["a", "b", "c"]) runs.push(await startRun(studio.address, "echo", { topic }, 30));
  const opened = await openRun(runs[0]);
  const { page } = opened;
  await chooseAction(page, "Delete run");
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await chooseAction(page, "Delete run");
  await dialog.getByRole("button", { name: "Delete run" }).click();
  await page.waitForURL(`${studio.address}/runs`);
  const statusOf = async (run) => (await fetch(`${studio.address}/api/v1/runs/${run}`)).status;
  assert.deepEqual(await Promise.all(runs.map(statusOf)), [404, 200, 200]);

  await page.getByRole("checkbox", { name: "Select run" }).nth(0).check();
  await page.getByRole("checkbox", { name: "Select run" }).nth(1).check();
  await page.getByRole("button", { name: "Delete selected" }).click();
  await dialog.getByRole("button", { name: "Delete the runs" }).click();
  await page.getByText("2 done").waitFor();
  assert.deepEqual(await Promise.all(runs.map(statusOf)), [404, 404, 404]);
  await closePage(opened);
});

test("the events of a run are saved as they are", async () => {
  const run = await startRun(studio.address, "echo", { topic: "tea" }, 30);
  const opened = await openRun(run);
  const { page } = opened;
  const downloading = page.waitForEvent("download");
  await chooseAction(page, "Save events as JSON");
  const download = await downloading;
  assert.equal(download.suggestedFilename(), `echo-a-topic-${run}.json`);
  const saved = JSON.parse(await readFile(await download.path(), "utf8"));
  assert.equal(saved.run, run);
  const stored = await (await fetch(`${studio.address}/api/v1/runs/${run}/events?from=0`)).text();
  assert.equal(saved.events.length, stored.match(/^id: ?\d+/gm).length);
  await closePage(opened);
});
