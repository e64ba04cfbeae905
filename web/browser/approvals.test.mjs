// What people decide about in a browser: questions that others have answered or that have expired, links to them, uncertain
// effects of forks; and the text of an answer that is cut off.
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { chooseStepAction, closePage, openBrowser, openPage, startRun, startStudio } from "./studio.mjs";

let studio;
let browser;

const ask = (name, promptTemplate, more = {}) => ({
  name,
  functionId: "human::ask",
  mode: "fanout",
  errorMode: "fail",
  promptTemplate,
  ...more,
});

before(async () => {
  const prepare = async (folder) => {
    const config = await readFile(join(folder, "flowloom.toml"), "utf8");
    const port = /127\.0\.0\.1:(\d+)/.exec(config)[1];
    const order = {
      url: `http://127.0.0.1:${port}/shop/order`,
      method: "POST",
      bodyType: "json",
      body: '{"order": 7}',
      responseVariable: "ordered",
    };
    await writeFile(
      join(folder, "order.json"),
      JSON.stringify({
        name: "Order",
        description: "Orders a lamp.",
        steps: [{ type: "apiCall", config: order }],
      }),
    );
    const short = ask("when", "When?", { timeoutMs: 2000, errorMode: "skip" });
    const steps = [ask("who", "Who?"), short];
    await writeFile(join(folder, "parcel.json"), JSON.stringify({ id: "parcel", name: "Parcel", steps }));
    const tell = { name: "tell", functionId: "agent::chat", mode: "sequential", promptTemplate: "{{input}}" };
    await writeFile(join(folder, "tell.json"), JSON.stringify({ id: "tell", name: "Tell", steps: [tell] }));
  };
  studio = await startStudio({ pauseMs: 30, prepare });
  browser = await openBrowser();
});

after(async () => {
  await browser?.close();
  await studio?.close();
});

async function send(path, body) {
  const response = await fetch(`${studio.address}/api/v1/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  assert.ok(response.ok, await response.text());
}

async function open(place) {
  const opened = await openPage(browser, studio.address);
  await opened.page.goto(`${studio.address}/${place}`);
  return opened;
}

test("a link to a run that was answered opens the form of no other run", async () => {
  const answered = await startRun(studio.address, "support-reply", "The lamp is broken.", 30);
  await send(`runs/${answered}/answer?wait=30`, { value: "yes" });
  const waiting = await startRun(studio.address, "support-reply", "The chair is broken.", 30);
  const opened = await open(`inbox?item=${answered}`);
  const { page } = opened;
  await page.getByText("is not among those that wait here").waitFor();
  await page.locator(".inbox-item", { hasText: "The chair is broken." }).waitFor();
  assert.equal(await page.locator(".answer").count(), 0);
  await page.locator(".inbox-item").click();
  await page.getByRole("textbox").waitFor();
  await send(`runs/${waiting}/cancel`, {});
  await closePage(opened);
});

test("who loses a race on the page of a run is told, and keeps what was entered", async () => {
  const run = await startRun(studio.address, "support-reply", "The lamp is broken.", 30);
  const opened = await open(`runs/${run}`);
  const { page } = opened;
  await page.getByRole("textbox").fill("no, it is fine");
  await send(`runs/${run}/answer?wait=30`, { value: "yes" });
  await page.getByText("Answered by someone else").waitFor();
  assert.equal(await page.locator(".answer textarea").inputValue(), "no, it is fine");
  await closePage(opened);
});

test("a question that has expired is closed, and others stay open", async () => {
  const run = await startRun(studio.address, "parcel", "x", 30);
  const opened = await open(`runs/${run}`);
  const { page } = opened;
  await page.getByText("This no longer waits for an answer: its time is over.").waitFor();
  await page.getByRole("treeitem", { name: /^when/ }).click();
  await page.goto(`${studio.address}/inbox?item=${run}`);
  await page.locator(".answer", { hasText: "Who?" }).waitFor();
  assert.equal(await page.locator(".answer", { hasText: "When?" }).count(), 0);
  await send(`runs/${run}/cancel`, {});
  await closePage(opened);
});

test("a fork whose first effect is uncertain is opened", async () => {
  const run = await startRun(studio.address, "order", {}, 30);
  const opened = await open(`runs/${run}`);
  const { page } = opened;
  await page.getByRole("treeitem").first().click();
  await chooseStepAction(page, "Fork from here");
  const dialog = page.getByRole("dialog", { name: "Fork from this step" });
  await dialog.getByRole("button", { name: "Start the fork" }).click();
  await page.waitForURL((address) => address.pathname.includes("/runs/") && !address.pathname.includes(run));
  await page.getByText("This effect may or may not have happened").waitFor();
  const { faults, context } = opened;
  await context.close();
  // The browser reports the status with which the server says that the outcome is uncertain.
  assert.deepEqual(
    faults.filter((fault) => !/409/.test(fault)),
    [],
  );
});

test("a long answer is followed to its end while it is written, and stays when the run is cancelled", async () => {
  const lines = Array.from({ length: 400 }, (_, at) => `line-${at}`).join("\n");
  const run = await startRun(studio.address, "tell", `repeat: ${lines}`);
  const opened = await open(`runs/${run}?step=%2Ftell`);
  const { page } = opened;
  const stream = page.getByTestId("stream");
  await stream.getByText("line-60").waitFor();
  const isAtEnd = (box) =>
    box.scrollHeight > box.clientHeight + 200 && box.scrollTop + box.clientHeight > box.scrollHeight - 60;
  await page.waitForFunction(isAtEnd, await stream.elementHandle());
  const isInnerFlat = await stream
    .locator("pre")
    .evaluate((text) => text.scrollHeight <= text.clientHeight + 1);
  assert.ok(isInnerFlat, "only one of the two boxes scrolls");
  await send(`runs/${run}/cancel`, {});
  await page.getByText("The answer until then").waitFor();
  assert.match(await stream.innerText(), /line-60/);
  await closePage(opened);
});
