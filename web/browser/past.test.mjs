// Earlier positions of a run in a browser: what is shown there is what was shown when the run was there.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openBrowser, openPage, startRun, startStudio } from "./studio.mjs";

let studio;
let browser;

before(async () => {
  studio = await startStudio({ pauseMs: 30 });
  browser = await openBrowser();
});

after(async () => {
  await browser?.close();
  await studio?.close();
});

const MESSAGE = "My lamp arrived broken!";
const HOUR_MS = 3_600_000;

async function close({ context, faults }) {
  await context.close();
  assert.deepEqual(faults, []);
}

/** All events of a run, in order. */
async function readEvents(run) {
  const response = await fetch(`${studio.address}/api/v1/runs/${run}/events?from=0`);
  const lines = (await response.text()).split("\n").filter((line) => line.startsWith("data: "));
  return lines.map((line) => JSON.parse(line.slice(6))).filter((record) => record.event);
}

test("the graph of an earlier position counts the time until there, not until today", async () => {
  const run = await startRun(studio.address, "support-reply", MESSAGE, 30);
  const events = await readEvents(run);
  const { seq } = events.find(({ event, path }) => event === "step_started" && path === "/improve[0]");
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.clock.setFixedTime(Date.now() + HOUR_MS);
  await page.goto(`${studio.address}/runs/${run}?at=${seq}`);
  await page.getByRole("treeitem", { name: /^improve/ }).waitFor();
  const node = page.locator(".node", { hasText: "improve" });
  await node.waitFor();
  assert.match(await node.textContent(), /0 ms.*Running/);
  assert.match(await page.getByRole("treeitem", { name: /^improve/ }).textContent(), /Running.*0 ms/);
  await close(opened);
});
