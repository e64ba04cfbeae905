// Values in a browser: pictures are shown, and numbers are sent as they were written.
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

/** More than a double can hold exactly. */
const BIG = "9007199254740993";
/** One pixel. */
const PIXEL = "R0lGODlhAQABAIAAAP///wAAACwAAAAAAQABAAACAkQBADs=";

test("an output that is a picture is shown as one, but not as SVG", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  const show = async (address) => {
    const run = await startRun(studio.address, "hostile", address, 30);
    await page.goto(`${studio.address}/runs/${run}?step=/repeat`);
    await page.getByRole("region", { name: "Output" }).waitFor();
    return page.locator(".value-body img");
  };
  const picture = await show(`data:image/gif;base64,${PIXEL}`);
  await page.waitForFunction(() => document.querySelector(".value-body img")?.naturalWidth === 1);
  assert.equal(await picture.count(), 1);
  const svg = Buffer.from("<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>").toString("base64");
  assert.equal(await (await show(`data:image/svg+xml;base64,${svg}`)).count(), 0);
  await closePage(opened);
});

test("an output that is cut says so, and is shown whole", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  const run = await startRun(studio.address, "hostile", `**start**\n\n${"x ".repeat(15_000)}end`, 30);
  await page.goto(`${studio.address}/runs/${run}?step=/repeat`);
  const output = page.getByRole("region", { name: "Output" });
  for (const look of ["Text", "Formatted"]) {
    await output.getByRole("button", { name: look, exact: true }).click();
    await output.getByText("The first 20,000 of 30,014 characters.").waitFor();
    assert.doesNotMatch(await output.innerText(), /end/);
    await output.getByRole("button", { name: "Show all", exact: true }).click();
    await output.getByText(/end$/).waitFor();
  }
  await output.locator("strong", { hasText: "start" }).waitFor();
  await closePage(opened);
});

test("a dialog stays when a selection that began in it ends outside", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/workflows/echo`);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  const field = page.getByRole("dialog").getByRole("textbox").first();
  await field.fill("a topic");
  const { x, y } = await field.boundingBox();
  await page.mouse.move(x + 40, y + 10);
  await page.mouse.down();
  await page.mouse.move(5, y + 10, { steps: 5 });
  await page.mouse.up();
  assert.equal(await field.inputValue(), "a topic");
  await page.mouse.click(5, 5);
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await closePage(opened);
});

test("a large number is stored as it was written", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/settings`);
  await page.getByRole("button", { name: "New entry" }).click();
  await page.getByLabel("Key", { exact: true }).last().fill("big");
  await page.getByLabel("Value as JSON").fill(`{"id": ${BIG}}`);
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("button", { name: "big", exact: true }).waitFor();
  const stored = await (await fetch(`${studio.address}/api/v1/memory/local`)).text();
  assert.match(stored, new RegExp(`:${BIG}\\D`));
  await closePage(opened);
});

test("a definition in the library and the values of a step keep large numbers", async () => {
  const headers = { "content-type": "application/json" };
  const agent = `{"agentId": "exact", "name": "Exact", "description": "d", "systemPrompt": "p", "options": {"seed": ${BIG}}}`;
  await fetch(`${studio.address}/api/v1/agents/exact`, { method: "PUT", headers, body: agent });
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/library?kind=agents&item=exact`);
  await page.getByRole("tab", { name: "JSON" }).click();
  const source = page.getByRole("textbox", { name: "Definition" });
  assert.match(await source.inputValue(), new RegExp(`${BIG}\\D`));
  await source.fill((await source.inputValue()).replace('"Exact"', '"Exactly"'));
  const saved = page.waitForResponse((response) => response.request().method() === "PUT");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  assert.ok((await saved).ok());
  const stored = await (await fetch(`${studio.address}/api/v1/agents/exact`)).text();
  assert.match(stored, /Exactly/);
  assert.match(stored, new RegExp(`:${BIG}\\D`));
  await closePage(opened);
});
