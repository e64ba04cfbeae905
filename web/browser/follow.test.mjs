// What follows runs in a browser: the waterfall, notifications, the inbox, the commands of a place, budgets of requests.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { closePage, openBrowser, openPage, startRun, startStudio, waitForCount } from "./studio.mjs";

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
/** Rows that fit on the screen, with those that are drawn around it. */
const MAX_DRAWN_ROWS = 80;

async function storeWorkflow(id, steps) {
  const response = await fetch(`${studio.address}/api/v1/workflows/${id}`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ id, name: id, steps }),
  });
  assert.ok(response.ok, await response.text());
}

function askStep(name) {
  return {
    name,
    functionId: "human::ask",
    mode: "fanout",
    errorMode: "fail",
    promptTemplate: `Question ${name}`,
  };
}

async function readRun(run) {
  return (await fetch(`${studio.address}/api/v1/runs/${run}`)).json();
}

test("attempts are rows, a step between two attempts says so, and so does a reused one", async () => {
  const step = (name, errorMode, promptTemplate) => {
    return { name, functionId: "agent::chat", mode: "sequential", errorMode, maxRetries: 1, promptTemplate };
  };
  await storeWorkflow("retried", [
    step("first", "fail", "quick: hi"),
    step("second", "retry", "outage: {{input}}"),
  ]);
  const run = await startRun(studio.address, "retried", "x", 60);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/runs/${run}`);
  await page.getByRole("treeitem", { name: /^Attempt 1, Failed/ }).waitFor();
  await page.getByRole("treeitem", { name: /^Attempt 2, Failed/ }).waitFor();
  const events = await (await fetch(`${studio.address}/api/v1/runs/${run}/events?from=0`)).text();
  const records = events.match(/^data: .*"seq".*$/gm).map((line) => JSON.parse(line.slice(6)));
  const { seq } = records.find(({ event, path }) => event === "step_failed" && path === "/second");
  await page.goto(`${studio.address}/runs/${run}?at=${seq}`);
  await page.getByRole("treeitem", { name: /^second.*Waits to try again/ }).waitFor();
  const body = JSON.stringify({ at: "/second" });
  const headers = { "content-type": "application/json" };
  const forked = await fetch(`${studio.address}/api/v1/runs/${run}/fork`, { method: "POST", headers, body });
  await page.goto(`${studio.address}/runs/${(await forked.json()).run_id}`);
  await page.getByRole("treeitem", { name: /^first.*Reused/ }).waitFor();
  await closePage(opened);
});

test("the first token of a live answer is marked", async () => {
  const run = await startRun(studio.address, "support-reply", `${MESSAGE} Token.`);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/runs/${run}`);
  await page.locator(".first-token").first().waitFor();
  await page.locator(".run-header").getByText("Waiting").waitFor();
  // The record says it to those who come later.
  await page.reload();
  await page.locator(".first-token").first().waitFor();
  await page.getByRole("treeitem", { name: /^draft/ }).click();
  await page.getByRole("tab", { name: "Attempts" }).click();
  await page.getByText(/^First token after/).waitFor();
  await closePage(opened);
});

test("keys fold the selected loop, and zoom to it", async () => {
  const run = await startRun(studio.address, "many", "x", 60);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/runs/${run}`);
  await page.getByRole("tree").waitFor();
  await page.keyboard.press("ArrowDown");
  await page.locator('[role=treeitem][aria-selected="true"]').waitFor();
  const loop = page.getByRole("treeitem", { name: /^round/ });
  await page.keyboard.press("o");
  await page.locator('[role=treeitem][aria-expanded="true"]').waitFor();
  await page.keyboard.press("z");
  await page.getByRole("button", { name: "Show all" }).waitFor();
  await page.keyboard.press("z");
  await page.getByRole("button", { name: "Show all" }).waitFor({ state: "detached" });
  const drawn = await page.getByRole("treeitem").count();
  assert.ok(drawn > 5 && drawn <= MAX_DRAWN_ROWS, `${drawn} rows are drawn`);
  await page.keyboard.press("o");
  await page.locator('[role=treeitem][aria-expanded="false"]').waitFor();
  await waitForCount(loop, 1);
  await closePage(opened);
});

test("a live run loses no event, and no event is requested twice", async () => {
  const run = await startRun(studio.address, "many", "live");
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  const requested = [];
  page.on("request", (request) => {
    const found = new RegExp(`/runs/${run}/events\\?.*from=(\\d+)`).exec(request.url());
    if (found) requested.push(Number(found[1]));
  });
  await page.goto(`${studio.address}/runs/${run}`);
  await page.getByRole("tree").waitFor();
  const ended = () =>
    /^(?!.*(?:Running|Queued))./.test(document.querySelector(".run-title .state")?.textContent ?? "");
  await page.waitForFunction(ended);
  const events = await (await fetch(`${studio.address}/api/v1/runs/${run}/events?from=0`)).text();
  const stored = events.match(/^id: ?\d+/gm).length;
  await page.waitForFunction(
    (count) =>
      document.querySelector("[data-testid=position]")?.textContent.replaceAll(/\D/g, "") ===
      `${count}${count}`,
    stored,
  );
  assert.deepEqual(requested, [...new Set(requested)], "each stream begins where the one before ended");
  assert.ok(requested.length <= 2, `${requested.length} streams were opened`);
  // Moving through the past asks for nothing.
  const before = requested.length;
  await page.keyboard.press("Home");
  for (let at = 0; at < 20; at++) await page.keyboard.press("PageDown");
  assert.equal(requested.length, before);
  await closePage(opened);
});

test("whoever permits notifications is notified in every place", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.addInitScript(() => {
    window.notified = [];
    window.Notification = class {
      static permission = "granted";
      constructor(title, { body }) {
        window.notified.push(`${title}: ${body}`);
      }
    };
  });
  await page.goto(`${studio.address}/settings`);
  await page.waitForResponse((response) => response.url().includes("status=waiting"));
  await page.waitForTimeout(200);
  await page.evaluate(() => Object.defineProperty(document, "hidden", { get: () => true }));
  await storeWorkflow("one-question", [{ ...askStep("a"), mode: "sequential" }]);
  await startRun(studio.address, "one-question", "x", 10);
  await page.waitForFunction(() => window.notified.length > 0);
  assert.deepEqual(await page.evaluate(() => window.notified), ["A run waits for you: one-question"]);
  await closePage(opened);
});

test("someone who types in the inbox keeps the focus when something happens to the run", async () => {
  await storeWorkflow("three-questions", ["a", "b", "c"].map(askStep));
  const run = await startRun(studio.address, "three-questions", "x", 10);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/inbox?item=${run}`);
  await page.waitForFunction(() => document.querySelectorAll(".inbox-open textarea").length === 3);
  const second = page.locator(".inbox-open textarea").nth(1);
  await second.focus();
  await page.keyboard.type("half an ");
  const { steps } = await readRun(run);
  const third = steps.filter((step) => step.question).at(-1);
  await fetch(`${studio.address}/api/v1/runs/${run}/answer`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ path: third.path, value: "done" }),
  });
  await page.waitForFunction(() => document.querySelectorAll(".inbox-open textarea").length === 2);
  await page.keyboard.type("answer");
  assert.equal(await second.inputValue(), "half an answer");
  await closePage(opened);
});

test("the palette has the commands of the place", async () => {
  const run = await startRun(studio.address, "broken", "Ada", 30);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/runs/${run}`);
  await page.getByRole("tree").waitFor();
  const choose = async (name) => {
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: /Search/ }).fill(name);
    await page
      .getByRole("option", { name: new RegExp(`^${name}`) })
      .first()
      .waitFor();
    await page.keyboard.press("Enter");
  };
  await choose("Verify by replay");
  await page.getByText(/Replay gives the same/).waitFor();
  await choose("Compare with another run");
  await page.waitForURL(/runs\/compare/);
  await page.goto(`${studio.address}/workflows/one-question`);
  await page.getByRole("heading", { name: "one-question" }).waitFor();
  await choose("Versions");
  await page.getByRole("dialog", { name: "Versions" }).waitFor();
  await closePage(opened);
});

test("a folder of files becomes one workflow", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(studio.address);
  const block = {
    id: "twice",
    name: "Twice",
    block_type: "python",
    source_code: "def execute(inputs):\n    return inputs",
  };
  const pipeline = {
    id: "dropped",
    name: "Dropped",
    nodes: [{ id: "n", block_id: "twice" }],
    edges: [],
  };
  const fileOf = (name, value) => ({
    name,
    mimeType: "application/json",
    buffer: Buffer.from(JSON.stringify(value)),
  });
  await page
    .locator("input[type=file]")
    .setInputFiles([fileOf("twice.json", block), fileOf("dropped.json", pipeline)]);
  await page.waitForURL(/workflows\/dropped/);
  const source = await (await fetch(`${studio.address}/api/v1/workflows/dropped/source`)).json();
  assert.equal(source.entry, "dropped.json");
  assert.deepEqual(Object.keys(source.files).sort(), ["blocks/twice.json", "dropped.json"]);
  await closePage(opened);
});
