// The run page in a browser: live, in the past, by keyboard, through a crash of the server.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { AxeBuilder } from "@axe-core/playwright";
import {
  chooseAction,
  chooseStepAction,
  closePage,
  openBrowser,
  openPage,
  startRun,
  startStudio,
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

async function openRun(run, search = "") {
  const opened = await openPage(browser, studio.address);
  await opened.page.goto(`${studio.address}/runs/${run}${search}`);
  await opened.page.getByRole("tree").waitFor();
  return opened;
}

/** What a person sees of a position, without times, which go on. */
async function describePosition(page) {
  const rows = await page
    .getByRole("treeitem")
    .evaluateAll((items) =>
      items.map(
        (item) =>
          `${item.querySelector(".cut").textContent} ${item.querySelector(".waterfall-phase").textContent}`,
      ),
    );
  return { position: await page.getByTestId("position").textContent(), rows };
}

test("a workflow is started with its form, and the answer is seen while it arrives", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(studio.address);
  await page.getByRole("link", { name: "Answer a support request" }).first().click();
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByLabel("input").fill(MESSAGE);
  await page.getByRole("button", { name: "Start" }).click();
  await page.getByRole("treeitem", { name: /^draft/ }).click();
  const stream = page.getByTestId("stream");
  await stream.waitFor();
  const first = (await stream.textContent()).length;
  await page.waitForFunction(
    (length) => document.querySelector("[data-testid=stream]")?.textContent.length > length,
    first,
  );
  assert.match(page.url(), /step=%2Fdraft|step=\/draft/);
  await page.getByRole("banner").or(page.locator(".run-header")).getByText("Waiting").waitFor();
  await closePage(opened);
});

test("the position in the run is the same as it was live, and its address shows it again", async () => {
  const run = await startRun(studio.address, "support-reply", MESSAGE, 30);
  const opened = await openRun(run);
  const { page } = opened;
  await page.keyboard.press("Home");
  assert.equal((await describePosition(page)).position, "1 / 22");
  const seen = [];
  for (let seq = 1; seq <= 22; seq++) {
    seen.push((await describePosition(page)).rows);
    await page.keyboard.press("ArrowRight");
  }
  assert.deepEqual(seen[0], []);
  assert.ok(seen[8].length < seen[21].length);
  assert.ok(seen[21].includes("approve Waiting"));
  await page.keyboard.press("Home");
  for (let at = 0; at < 8; at++) await page.keyboard.press("ArrowRight");
  await page.waitForURL(/at=9/);
  const other = await openPage(browser, studio.address);
  await other.page.goto(page.url());
  await other.page.getByRole("tree").waitFor();
  assert.deepEqual((await describePosition(other.page)).rows, seen[8]);
  await closePage(other);
  await closePage(opened);
});

test("everything on the run page can be done by keyboard", async () => {
  const run = await startRun(studio.address, "broken", "Ada", 30);
  const opened = await openRun(run);
  const { page } = opened;
  await page.keyboard.press("Home");
  await page.keyboard.press("e");
  assert.match(await page.getByTestId("position").textContent(), /^6 \/ 7|^5 \/ 7/);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.getByRole("heading", { name: "second" }).waitFor();
  await page.keyboard.press("End");
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: /Search/ }).fill("inbox");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/inbox/);
  await closePage(opened);
});

test("a question is answered on the page, and the run goes on", async () => {
  const run = await startRun(studio.address, "support-reply", MESSAGE, 30);
  const opened = await openRun(run);
  const { page } = opened;
  await page.getByLabel("Answer", { exact: true }).fill("yes, send it");
  await page.getByRole("button", { name: "Send answer" }).click();
  await page.locator(".run-header").getByText("Succeeded").waitFor();
  await chooseAction(page, "Verify by replay");
  await page.getByText(/Replay gives the same \d+ events/).waitFor();
  await closePage(opened);
});

test("a run is cancelled after a question", async () => {
  const run = await startRun(studio.address, "support-reply", MESSAGE, 30);
  const opened = await openRun(run);
  const { page } = opened;
  await page.getByRole("button", { name: "Cancel run" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Keep running" }).click();
  await page.getByRole("button", { name: "Cancel run" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel run" }).click();
  await page.locator(".run-header").getByText("Cancelled").waitFor();
  await closePage(opened);
});

test("after a crash of the server the page goes on without a gap", async () => {
  const run = await startRun(studio.address, "support-reply", `${MESSAGE} Again.`);
  const opened = await openRun(run);
  const { page } = opened;
  await page.getByRole("treeitem", { name: /^draft/ }).waitFor();
  await studio.restart();
  await page.locator(".run-header").getByText("Waiting").waitFor({ timeout: 30_000 });
  const response = await fetch(`${studio.address}/api/v1/runs/${run}/events?from=0`);
  const stored = (await response.text()).match(/^id: ?\d+/gm).length;
  await page.keyboard.press("End");
  assert.equal(await page.getByTestId("position").textContent(), `${stored} / ${stored}`);
  await opened.context.close();
  // The browser itself reports the connection that the crash broke.
  assert.deepEqual(
    opened.faults.filter((fault) => !/ERR_|Failed to load/.test(fault)),
    [],
  );
});

test("a run is forked at a step, and the fork leads back to it", async () => {
  const run = await startRun(studio.address, "support-reply", MESSAGE, 30);
  const opened = await openRun(run);
  const { page } = opened;
  await page.getByRole("treeitem", { name: /^draft/ }).click();
  await chooseStepAction(page, "Fork from here");
  const dialog = page.getByRole("dialog", { name: "Fork from this step" });
  await dialog.getByLabel("Prompt", { exact: true }).fill("Write something else.");
  await dialog.getByRole("button", { name: "Start the fork" }).click();
  await page.waitForURL((address) => address.pathname.includes("/runs/") && !address.pathname.includes(run));
  await page.getByRole("tree").waitFor();
  await page.getByText("Forked from").waitFor();
  await page.getByRole("treeitem", { name: /^mood/ }).click();
  await page.getByText("from the record of the other run").waitFor();
  await page.getByRole("button", { name: "Close", exact: true }).click();
  await page.getByRole("link", { name: "Compare" }).click();
  await page.waitForURL(/runs\/compare/);
  await closePage(opened);
});

test("two runs are compared at their first divergence", async () => {
  const left = await startRun(studio.address, "hostile", "the same\nand this", 30);
  const right = await startRun(studio.address, "hostile", "the same\nand that", 30);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/runs?workflow=hostile`);
  for (const run of [left, right]) await page.getByRole("checkbox", { name: run.slice(-8) }).check();
  await page.getByRole("link", { name: "Compare" }).click();
  await page.getByText("The runs diverge at /repeat.").waitFor();
  // What was sent comes before what came out.
  const diffs = page.locator(".diff");
  await diffs.nth(1).waitFor();
  const [sent, ...others] = await diffs.evaluateAll((all) =>
    all.map((diff) =>
      [...diff.querySelectorAll("[data-change]:not([data-change=same])")].map((line) => line.textContent),
    ),
  );
  assert.ok(
    sent.some((line) => line.startsWith("+") && line.includes("and that")),
    sent.join(""),
  );
  assert.deepEqual(others, [["- and this\n", "+ and that\n"]]);
  assert.match(page.url(), new RegExp(`left=${left}&right=${right}`));
  await closePage(opened);
});

test("a run without forks is compared with a recent run of its workflow", async () => {
  const other = await startRun(studio.address, "hostile", "one", 30);
  const run = await startRun(studio.address, "hostile", "another", 30);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/runs/${run}`);
  await chooseAction(page, "Compare with another run");
  await page.locator(".compare-run").getByText("Succeeded").waitFor();
  const choice = page.getByRole("region", { name: "Compare with" });
  await choice.getByRole("link", { name: "All runs" }).waitFor();
  const { violations } = await new AxeBuilder({ page }).analyze();
  assert.deepEqual(
    violations.map((violation) => [violation.id, violation.nodes.map((node) => node.html)]),
    [],
  );
  assert.equal(await choice.getByRole("link", { name: run.slice(-8) }).count(), 0);
  await choice.getByRole("link", { name: other.slice(-8) }).click();
  await page.getByText("The runs diverge at /repeat.").waitFor();
  assert.match(page.url(), new RegExp(`left=${run}&right=${other}`));
  await closePage(opened);
});

test("a run with warnings says so in its header, its row and its node, and leads to the step", async () => {
  const skeleton = await fetch(`${studio.address}/api/v1/definitions/skeleton?format=flow&name=warned`);
  const { entry, text } = await skeleton.json();
  const files = {
    [entry]: text.replace(/"instruction": "[^"]*"/, '"instruction": "quick: repeat: ${responze}"'),
  };
  const stored = await fetch(`${studio.address}/api/v1/workflows/warned`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ entry, files }),
  });
  assert.ok(stored.ok, await stored.text());
  const run = await startRun(studio.address, "warned", {}, 30);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/runs/${run}`);
  await page.locator(".waterfall-row").getByTitle("1 warning").first().waitFor();
  await page.locator(".node").getByTitle("1 warning").first().waitFor();
  await page.locator(".run-header").getByRole("button", { name: "1 warning" }).click();
  await page.getByRole("region", { name: "Details" }).getByText("responze").first().waitFor();
  const { violations } = await new AxeBuilder({ page }).analyze();
  assert.deepEqual(
    violations.map((violation) => [violation.id, violation.nodes.map((node) => node.html)]),
    [],
  );
  await closePage(opened);
});

test("hostile outputs stay text", async () => {
  const inputs = [
    "<img src=x onerror=alert(1)><script>alert(2)</script>",
    "[click](javascript:alert(1)) ![x](https://example.org/x.png) **bold**",
    "\u202Egnp.exe \u2066 {{7*7}} {{constructor}}",
    JSON.stringify({ a: "<svg onload=alert(1)>", b: [[[[["deep"]]]]] }),
    `${"# heading\n".repeat(2000)}`,
    "x".repeat(200_000),
  ];
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  let dialogs = 0;
  page.on("dialog", (dialog) => {
    dialogs++;
    void dialog.dismiss();
  });
  for (const input of inputs) {
    const run = await startRun(studio.address, "hostile", input, 30);
    await page.goto(`${studio.address}/runs/${run}?step=/repeat`);
    await page.getByRole("region", { name: "Output" }).waitFor();
    // What turns text around is shown as what it is.
    if (input.includes("\u202E")) await page.getByText("[U+202E]gnp.exe").first().waitFor();
    const formatted = page.getByRole("region", { name: "Output" }).getByRole("button", { name: "Formatted" });
    await formatted.click();
    const markup = await page
      .locator(".value-body")
      .evaluate((body) => body.querySelectorAll("img, script, svg, iframe").length);
    assert.equal(markup, 0);
    const links = await page.locator(".value-body a").evaluateAll((all) => all.map((link) => link.href));
    assert.deepEqual(
      links.filter((link) => !/^https?:/.test(link)),
      [],
    );
  }
  assert.equal(dialogs, 0);
  await closePage(opened);
});

test("the node because of which a pipeline failed is shown as failed, and the error leads to it", async () => {
  const block = (id, source_code) => ({
    id,
    name: id,
    execution_type: "python",
    source_code,
    input_schema: { type: "object", properties: { text: { type: "string" } } },
    output_schema: { type: "object", properties: { text: { type: "string" } } },
  });
  const pipeline = {
    id: "boom",
    name: "Boom",
    nodes: [
      { id: "n1", block_id: "burst", inputs: { text: "x" } },
      { id: "n2", block_id: "say", inputs: { text: "{{n1.text}}" } },
    ],
    edges: [{ from: "n1", to: "n2" }],
    blocks: [
      block("burst", "async def execute(inputs, context):\n    raise ValueError('broken inside')"),
      block("say", "async def execute(inputs, context):\n    return {'text': inputs['text']}"),
    ],
  };
  const stored = await fetch(`${studio.address}/api/v1/workflows/boom`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(pipeline),
  });
  assert.ok(stored.ok, await stored.text());
  const run = await startRun(studio.address, "boom", {}, 30);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/runs/${run}`);
  await page.getByRole("treeitem", { name: /^n1 · burst, Python, Failed/ }).waitFor();
  await page.getByRole("treeitem", { name: /^n2 · say, Skipped/ }).waitFor();
  await page
    .locator(".react-flow")
    .getByText(/^n1 · /)
    .waitFor();
  await page.locator(".run-header").getByText("n1 · burst: ValueError: broken inside").waitFor();
  const details = page.getByRole("region", { name: "Details" });
  await details.getByRole("list", { name: "Failed steps" }).getByRole("button").click();
  await details.getByRole("heading", { name: "n1 · burst" }).waitFor();
  await details.getByText("broken inside").waitFor();
  assert.equal(await details.getByText("The run continued without this output.").count(), 0);
  await closePage(opened);
});

test("a failed run has no output", async () => {
  const run = await startRun(studio.address, "broken", "Ada", 30);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/runs/${run}`);
  await page.getByRole("heading", { name: "Inputs" }).waitFor();
  await page.waitForTimeout(300);
  assert.equal(await page.getByRole("heading", { name: "Output" }).count(), 0);
  await closePage(opened);
});
