// Earlier positions of a run in a browser: what is shown there is what was shown when the run was there.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  chooseStepAction,
  closePage,
  openBrowser,
  openPage,
  startRun,
  startStudio,
  waitForCount,
} from "./studio.mjs";

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
  await closePage(opened);
});

test("variables and the stream follow the position", async () => {
  const run = await startRun(studio.address, "support-reply", MESSAGE, 30);
  const events = await readEvents(run);
  const { seq: started } = events.find((one) => one.event === "step_started" && one.path === "/draft");
  const { seq: ended, data } = events.find((one) => one.event === "step_finished" && one.path === "/draft");
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/runs/${run}?at=${started}&step=/draft`);
  // Between the two events nothing is recorded, so that the answer begins at the first one.
  await page.getByText("approximate").waitFor();
  await page.getByRole("tab", { name: "Variables" }).click();
  const variables = page.getByRole("list", { name: "Variables" });
  await variables.getByText("mood").waitFor();
  assert.equal(await variables.getByText("draft", { exact: true }).count(), 0);
  await page.getByRole("slider").focus();
  for (let seq = started; seq < ended; seq++) await page.keyboard.press("ArrowRight");
  await variables.getByText("draft", { exact: true }).click();
  await variables.getByRole("region", { name: "draft" }).getByText(data.output.slice(0, 40)).waitFor();
  await closePage(opened);
});

test("a run that has ended stays ended at an earlier position, with all of its actions", async () => {
  const run = await startRun(studio.address, "broken", "Ada", 30);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/runs/${run}`);
  await page.locator(".scrubber").getByText("End", { exact: true }).waitFor();
  await page.getByRole("treeitem", { name: /^second/ }).click();
  await page.keyboard.press("Home");
  const header = page.locator(".run-header");
  await header.getByText(/^At event 1 of \d+$/).waitFor();
  await page.keyboard.press("e");
  await header.getByText(/^At event [56] of \d+$/).waitFor();
  await header.getByText("Failed", { exact: true }).waitFor();
  await header.getByRole("button", { name: "Retry", exact: true }).waitFor();
  await header.getByRole("button", { name: "Actions", exact: true }).click();
  for (const name of [/^Verify by replay/, /^Save as test/, /^Delete run/]) {
    const item = page.getByRole("menuitem", { name });
    assert.equal(await item.getAttribute("aria-disabled"), null, `${name}`);
  }
  await page.keyboard.press("Escape");
  await chooseStepAction(page, "Retry from here");
  await header.getByText("At event").waitFor({ state: "detached" });
  await closePage(opened);
});

/** Notes what the page shows at every position at which it is while the run goes on. */
function watchPositions(page) {
  return page.evaluate(() => {
    const seen = {};
    window.seenPositions = seen;
    const describe = () => {
      const rows = [...document.querySelectorAll("[role=treeitem]")].map((row) => {
        const phase = row.querySelector(".waterfall-phase").textContent;
        return `${row.querySelector(".waterfall-name .cut").textContent} ${phase}`;
      });
      const nodes = [...document.querySelectorAll(".node")].map(
        (node) => `${node.querySelector(".node-title").textContent} ${node.dataset.state ?? "none"}`,
      );
      const [position] = (document.querySelector("[data-testid=position]")?.textContent ?? "").split(" ");
      if (nodes.length > 0) seen[position] = { rows, nodes };
      requestAnimationFrame(describe);
    };
    describe();
  });
}

test("a position shows afterwards what it showed live", async () => {
  const run = await startRun(studio.address, "support-reply", `${MESSAGE} Live.`);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/runs/${run}`);
  await page.getByRole("tree").waitFor();
  await watchPositions(page);
  await page.locator(".run-header").getByText("Waiting").waitFor();
  const live = await page.evaluate(() => window.seenPositions);
  const positions = Object.keys(live);
  assert.ok(positions.length >= 5, `only ${positions.join(", ")} were seen live`);
  const later = await openPage(browser, studio.address);
  await later.page.goto(`${studio.address}/runs/${run}`);
  await later.page.locator(".node").first().waitFor();
  await watchPositions(later.page);
  await later.page.keyboard.press("Home");
  const isSeen = (position) => position in window.seenPositions;
  for (const { seq } of await readEvents(run)) {
    await later.page.waitForFunction(isSeen, `${seq}`);
    await later.page.keyboard.press("ArrowRight");
  }
  const past = await later.page.evaluate(() => window.seenPositions);
  for (const position of positions) assert.deepEqual(past[position], live[position], `at ${position}`);
  await closePage(later);
  await closePage(opened);
});

test("a run that waits opens with its question on a narrow screen, and its wait is drawn with a break", async () => {
  const run = await startRun(studio.address, "support-reply", MESSAGE, 30);
  const opened = await openPage(browser, studio.address, { viewport: { width: 390, height: 800 } });
  const { page } = opened;
  await page.clock.install();
  await page.goto(`${studio.address}/runs/${run}`);
  await page.getByLabel("Answer", { exact: true }).waitFor();
  await page.clock.runFor(60_000);
  await page.getByRole("tab", { name: "Steps" }).click();
  await page.locator(".axis-gap").waitFor();
  await waitForCount(page.locator(".bar-gap"), 1);
  await closePage(opened);
});

test("a zoomed axis begins with the first row that happens in it, and rows outside are marked", async () => {
  const run = await startRun(studio.address, "many", {}, 30);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/runs/${run}`);
  await page.getByRole("treeitem").first().waitFor();
  await page.getByRole("treeitem").first().click();
  await page.keyboard.press("o");
  await page.getByRole("treeitem").nth(5).waitFor();
  const axis = await page.locator(".time-axis-lane").boundingBox();
  const drag = (part) => [axis.x + axis.width * part, axis.y + 10];
  await page.mouse.move(...drag(0.5));
  await page.mouse.down();
  await page.mouse.move(...drag(0.6), { steps: 4 });
  await page.mouse.up();
  await page.getByRole("button", { name: "Show all" }).waitFor();
  await page.waitForFunction(() => {
    const top = document.querySelector(".waterfall")?.getBoundingClientRect().top;
    const rows = [...document.querySelectorAll(".waterfall-row")];
    const places = rows.map((row) => ({ row, top: row.getBoundingClientRect().top - top }));
    const first = places.filter((one) => one.top >= -1).sort((one, other) => one.top - other.top)[0]?.row;
    return first?.querySelector(".bar") && !first.querySelector(".outside");
  });
  assert.ok((await page.locator(".outside[data-side=before]").count()) > 0);
  await closePage(opened);
});
