// What can be done with a run and its steps in a browser: retry from a step, fork with other values, resume.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { chooseStepAction, closePage, openBrowser, openPage, startRun, startStudio } from "./studio.mjs";

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

const MESSAGE = "My lamp arrived broken!";

async function openRun(run, search = "") {
  const opened = await openPage(browser, studio.address);
  await opened.page.goto(`${studio.address}/runs/${run}${search}`);
  await opened.page.getByRole("tree").waitFor();
  return opened;
}

/** Waits until the page shows another run, and returns its id. */
async function waitForFork(page, run) {
  await page.waitForURL(
    (address) => /\/runs\/[^/]+$/.test(address.pathname) && !address.pathname.includes(run),
  );
  await page.getByRole("tree").waitFor();
  return new URL(page.url()).pathname.split("/").at(-1);
}

async function readRun(run) {
  return (await fetch(`${studio.address}/api/v1/runs/${run}`)).json();
}

test("a run that has ended is retried from a step", async () => {
  const run = await startRun(studio.address, "broken", "Ada", 30);
  const opened = await openRun(run, "?step=/first");
  const { page } = opened;
  await page.getByText("Failed").first().waitFor();
  const before = Number((await page.getByTestId("position").textContent()).split(" ")[0]);
  await chooseStepAction(page, "Retry from here");
  await page.waitForFunction(
    (events) =>
      Number(document.querySelector("[data-testid=position]")?.textContent.split(" ")[0]) > events + 4,
    before,
  );
  // The step that had succeeded was performed again, too.
  await page.getByRole("tab", { name: "Attempts" }).click();
  await page.getByRole("heading", { name: "Attempt 2" }).waitFor();
  await closePage(opened);
});

test("a fork begins with the prompt of the step, and sets variables before it", async () => {
  const run = await startRun(studio.address, "support-reply", MESSAGE, 30);
  const opened = await openRun(run, "?step=/draft");
  const { page } = opened;
  await chooseStepAction(page, "Fork from here");
  const dialog = page.getByRole("dialog", { name: "Fork from this step" });
  const prompt = dialog.getByLabel("Prompt", { exact: true });
  assert.match(await prompt.inputValue(), /^Mood: \{\{mood\}\}\nTopic: \{\{topic\}\}/);
  await dialog.getByText(/variables before this step/).click();
  const mood = dialog.getByLabel("mood", { exact: true });
  assert.equal(await mood.inputValue(), "angry");
  await mood.fill("delighted");
  await dialog.getByRole("button", { name: "Start the fork" }).click();
  const fork = await waitForFork(page, run);
  await page.getByRole("treeitem", { name: /^draft/ }).click();
  await page.getByRole("tab", { name: "Request" }).click();
  await page.getByText("Mood: delighted").waitFor();
  assert.notEqual(fork, run);
  await closePage(opened);
});

test("a run is forked with other inputs", async () => {
  const run = await startRun(studio.address, "hostile", "one", 30);
  const opened = await openRun(run);
  const { page } = opened;
  await page.getByRole("button", { name: "Fork with other inputs" }).click();
  const dialog = page.getByRole("dialog", { name: "Fork with other inputs" });
  const input = dialog.getByLabel("input", { exact: true });
  assert.equal(await input.inputValue(), "one");
  await input.fill("two");
  await dialog.getByRole("button", { name: "Start the fork" }).click();
  const fork = await waitForFork(page, run);
  await page.locator(".run-header").getByText("Succeeded").waitFor();
  assert.equal((await readRun(fork)).output, "two");
  await closePage(opened);
});

test("an interrupted run says so, and is resumed", async () => {
  const run = await startRun(studio.address, "support-reply", `${MESSAGE} Resume.`);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  // Whether a process performs the run is not among its events.
  await page.route(`**/api/v1/runs/${run}`, async (route) => {
    const response = await route.fetch();
    return route.fulfill({ response, json: { ...(await response.json()), status: "interrupted" } });
  });
  await page.goto(`${studio.address}/runs/${run}`);
  await page.locator(".run-header").getByText("Interrupted").waitFor();
  const sent = page.waitForResponse((response) => response.url().endsWith(`/runs/${run}/resume`));
  await page.getByRole("button", { name: "Resume" }).click();
  assert.ok((await sent).ok());
  await page.locator(".run-header").getByText("Waiting").waitFor();
  await closePage(opened);
});
