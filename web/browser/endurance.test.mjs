// Live runs for a while: the memory of the page and of the server stays the same. `make test` looks for half a minute;
// FLOWLOOM_BROWSER_MINUTES=30 looks for longer, and prints a line each minute.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { openBrowser, openPage, startRun, startStudio } from "./studio.mjs";

const MINUTES = Number(process.env.FLOWLOOM_BROWSER_MINUTES ?? 0.5);
/** What is loaded and cached at the beginning is not growth. */
const WARM_UP_SHARE = 0.3;
const MAX_PAGE_GROWTH_MB = 20;
const MAX_SERVER_GROWTH_MB = 60;

let studio;
let browser;

before(async () => {
  studio = await startStudio({ pauseMs: 5 });
  browser = await openBrowser();
});

after(async () => {
  await browser?.close();
  await studio?.close();
});

test(`live runs for ${MINUTES} minutes need no more and more memory`, {
  timeout: (MINUTES + 2) * 60_000,
}, async (t) => {
  const opened = await openPage(browser, studio.address);
  const { page, context } = opened;
  const devtools = await context.newCDPSession(page);
  await devtools.send("HeapProfiler.enable");
  const measure = async () => {
    await devtools.send("HeapProfiler.collectGarbage");
    const { usedSize } = await devtools.send("Runtime.getHeapUsage");
    const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
    return { pageMb: usedSize / 2 ** 20, nodes, serverMb: await readServerMb(studio.pid()) };
  };
  await page.goto(`${studio.address}/runs`);
  const begin = Date.now();
  const elapsed = () => (Date.now() - begin) / 60_000;
  const samples = [];
  let runs = 0;
  for (let minute = 0; elapsed() < MINUTES; ) {
    const run = await startRun(
      studio.address,
      runs % 3 === 0 ? "echo" : "support-reply",
      runs % 3 === 0 ? {} : "x",
    );
    runs++;
    await page.getByRole("link", { name: "Runs", exact: true }).first().click();
    await page.evaluate((address) => {
      history.pushState({}, "", address);
      dispatchEvent(new PopStateEvent("popstate"));
    }, `${studio.address}/runs/${run}`);
    const header = page.locator(".run-header");
    await header.getByText("Waiting").or(header.getByText("Succeeded")).first().waitFor({ timeout: 30_000 });
    // Over its whole length, and back.
    await page.keyboard.press("Home");
    await page.keyboard.press("End");
    const sample = { at: elapsed(), runs, ...(await measure()) };
    samples.push(sample);
    if (sample.at >= minute) {
      minute++;
      t.diagnostic(
        `minute ${sample.at.toFixed(1)}: ${runs} runs, page ${sample.pageMb.toFixed(1)} MB, ${sample.nodes} elements, server ${sample.serverMb.toFixed(0)} MB`,
      );
    }
  }
  const warm = samples.filter((sample) => sample.at > MINUTES * WARM_UP_SHARE);
  const half = Math.ceil(warm.length / 2);
  const growth = (name) => median(warm.slice(half), name) - median(warm.slice(0, half), name);
  t.diagnostic(
    `${runs} runs; the page grew by ${growth("pageMb").toFixed(1)} MB, the server by ${growth("serverMb").toFixed(1)} MB`,
  );
  assert.ok(growth("pageMb") < MAX_PAGE_GROWTH_MB, `the page grew by ${growth("pageMb")} MB`);
  assert.ok(growth("serverMb") < MAX_SERVER_GROWTH_MB, `the server grew by ${growth("serverMb")} MB`);
  await context.close();
  assert.deepEqual(opened.faults, []);
});

function median(samples, name) {
  const values = samples.map((sample) => sample[name]).sort((one, other) => one - other);
  return values[Math.floor(values.length / 2)] ?? 0;
}

/** The memory that a process holds. */
async function readServerMb(pid) {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/VmRSS:\s+(\d+)/.exec(status)[1]) / 1024;
}
