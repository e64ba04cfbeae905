// What follows runs in a browser: runs that have ended, long waits, loops as a whole, and keys that may only read.
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

async function send(method, path, body, key) {
  const headers = { "content-type": "application/json", ...(key && { authorization: `Bearer ${key}` }) };
  const response = await fetch(`${studio.address}/api/v1/${path}`, {
    method,
    headers,
    ...(body && { body: JSON.stringify(body) }),
  });
  const answer = await response.json();
  assert.ok(response.ok, JSON.stringify(answer));
  return answer;
}

const step = (name, functionId, promptTemplate, more = {}) => {
  return { name, functionId, mode: "sequential", errorMode: "fail", promptTemplate, ...more };
};

async function store(id, steps) {
  await send("PUT", `workflows/${id}`, { id, name: id, steps });
}

test("a run that was cancelled while it waited asks for nothing", async () => {
  await store("asks", [step("ask", "human::ask", "Which colour?")]);
  const run = await startRun(studio.address, "asks", "x", 30);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/inbox?item=${run}`);
  await page.getByRole("button", { name: "Send answer" }).waitFor();
  await send("POST", `runs/${run}/cancel`);
  await page.getByText("This no longer waits for an answer: the run has ended.").waitFor();
  await page.goto(`${studio.address}/runs/${run}`);
  await page.getByText("Cancelled", { exact: true }).first().waitFor();
  await page.getByRole("treeitem", { name: /^ask, .*Aborted/ }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Send answer" }).count(), 0);
  await page.getByRole("treeitem", { name: /^ask/ }).click();
  await page.getByRole("region", { name: "Details" }).getByText("Aborted").waitFor();
  assert.equal(await page.getByRole("button", { name: "Send answer" }).count(), 0);
  const [shown] = (await send("GET", `runs/${run}`)).steps;
  assert.equal(shown.phase, "aborted");
  await closePage(opened);
});

test("a wait that is over is drawn with a break, and what happened before and after it to scale", async () => {
  await store("waits", [
    step("before", "agent::chat", "quick: {{input}}"),
    step("ask", "human::ask", "Which colour?"),
    step("after", "agent::chat", "quick: {{input}}"),
  ]);
  const run = await startRun(studio.address, "waits", "x", 30);
  // Longer than everything else in the run.
  await new Promise((resolve) => setTimeout(resolve, 3000));
  await send("POST", `runs/${run}/answer`, { value: "red" });
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/runs/${run}`);
  await page.getByText("Succeeded", { exact: true }).first().waitFor();
  await page.locator(".axis-gap").waitFor();
  await waitForCount(page.locator(".bar-gap"), 1);
  await page
    .getByTitle(/^Nothing was performed for 3(\.\d+)? s/)
    .first()
    .waitFor();
  const widthOf = async (name) =>
    (await page.getByRole("treeitem", { name }).locator(".bar").first().boundingBox()).width;
  assert.ok((await widthOf(/^before/)) > 40, "the steps next to the wait can be seen");
  await closePage(opened);
});

test("a loop has the time, the number and the newest output of its iterations", async () => {
  const until = { maxIterations: 3, until: "never" };
  await store("rounds", [step("round", "agent::chat", "quick: {{input}}", { mode: "loop", ...until })]);
  const run = await startRun(studio.address, "rounds", "x", 60);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/runs/${run}`);
  await page
    .getByRole("treeitem", { name: /^round/ })
    .first()
    .click();
  const details = page.getByRole("region", { name: "Details" });
  await details.getByText("Parts").waitFor();
  await details.locator("dd", { hasText: /^3$/ }).waitFor();
  assert.equal(await details.getByText("0 ms", { exact: true }).count(), 0);
  await details.getByRole("tab", { name: "Attempts" }).click();
  await details.getByText("The steps in it sent the requests").waitFor();
  await details.getByRole("tab", { name: "Output" }).click();
  await details.getByRole("button", { name: /\[2\]/ }).click();
  await details.getByText("/round[2]").first().waitFor();
  await closePage(opened);
});

test("the list of steps follows the scrubber, and End follows the run", async () => {
  const steps = Array.from({ length: 60 }, (_, at) => step(`step-${at}`, "agent::chat", "quick: {{input}}"));
  await store("long", steps);
  const run = await startRun(studio.address, "long", "x", 60);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/runs/${run}`);
  await page.getByRole("treeitem", { name: /^step-0,/ }).waitFor();
  const track = page.getByRole("slider");
  const { width, height } = await track.boundingBox();
  await track.click({ position: { x: width * 0.9, y: height / 2 } });
  const row = page.getByRole("treeitem", { name: /^step-5[0-9],/ }).first();
  await row.waitFor();
  assert.ok(await row.isVisible());
  await page.keyboard.press("End");
  await page.waitForURL((url) => !url.searchParams.has("at"));
  await page.keyboard.press("Home");
  await page.waitForURL((url) => url.searchParams.get("at") === "1");
  // Keys that are pressed before the page has rendered again.
  const last = Number(await track.getAttribute("aria-valuemax"));
  await page.evaluate(() => {
    const press = () => new KeyboardEvent("keydown", { key: "PageDown", bubbles: true });
    for (let count = 0; count < 3; count += 1) document.body.dispatchEvent(press());
  });
  await page.waitForURL((url) => url.searchParams.get("at") === String(1 + 3 * Math.ceil(last / 10)));
  await closePage(opened);
});

test("a key that may only read is offered nothing that changes a run", async () => {
  await store("read", [step("ask", "human::ask", "Which colour?")]);
  const run = await startRun(studio.address, "read", "x", 30);
  const { key: admin } = await send("POST", "keys", { name: "admin", scopes: ["admin"] });
  const { key: reader } = await send("POST", "keys", { name: "reader", scopes: ["read"] }, admin);
  await studio.restart();
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(studio.address);
  await page.getByRole("textbox", { name: "API key" }).fill(reader);
  await page.keyboard.press("Enter");
  await page.getByRole("dialog", { name: "Enter an API key" }).waitFor({ state: "detached" });
  await page.goto(`${studio.address}/runs/${run}`);
  await page.getByText("Your key may read this run, and not answer it.").waitFor();
  for (const name of ["Cancel run", "Send answer"]) {
    assert.equal(await page.getByRole("button", { name }).count(), 0, name);
  }
  await page.getByRole("button", { name: "Actions", exact: true }).click();
  await page.getByRole("menuitem", { name: "Copy link" }).waitFor();
  assert.equal(await page.getByRole("menuitem", { name: /Fork|Retry|Delete/ }).count(), 0);
  await opened.context.close();
  // The page asked before it had the key.
  assert.deepEqual(
    opened.faults.filter((fault) => !/status of 401/.test(fault)),
    [],
  );
});
