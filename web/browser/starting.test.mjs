// How runs are started in a browser: with unsaved changes, with the inputs of the last run, and by a schedule.
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

function definitionOf(id, prompt) {
  const step = { name: "a", functionId: "agent::chat", mode: "sequential", errorMode: "fail" };
  return { id, name: `Start ${id}`, steps: [{ ...step, promptTemplate: prompt }] };
}

async function storeWorkflow(id, prompt = "Say {{input}}") {
  const response = await fetch(`${studio.address}/api/v1/workflows/${id}`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(definitionOf(id, prompt)),
  });
  assert.ok(response.ok, await response.text());
}

const readJson = async (path) => (await fetch(`${studio.address}/api/v1/${path}`)).json();
const listRuns = async (workflow) => (await readJson(`runs?workflow=${workflow}`)).items;

/** Opens a workflow, and replaces its text. */
async function change(page, id, prompt) {
  await page.goto(`${studio.address}/workflows/${id}`);
  await page.getByRole("tab", { name: "Source" }).first().click();
  await page.getByRole("textbox", { name: /Source of/ }).click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(JSON.stringify(definitionOf(id, prompt)));
  await page.getByText("Unsaved changes").waitFor();
}

async function openRunDialog(page, id) {
  await page.getByRole("button", { name: "Run", exact: true }).click();
  return page.getByRole("dialog", { name: `Run Start ${id}` });
}

test("with unsaved changes, one button saves and runs them", async () => {
  await storeWorkflow("save-run");
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await change(page, "save-run", "Shout {{input}}");
  const dialog = await openRunDialog(page, "save-run");
  await dialog.getByLabel("input").fill("Ada");
  await dialog.getByRole("button", { name: "Save and run" }).click();
  await page.waitForURL(/\/runs\//);
  await page.locator(".run-header").getByText("Succeeded").waitFor();
  const [run, ...others] = await listRuns("save-run");
  assert.equal(others.length, 0);
  assert.match(JSON.stringify(await readJson(`runs/${run.run_id}/steps`)), /Shout Ada/);
  await closePage(opened);
});

test("the saved version runs once, and the changes are there again afterwards", async () => {
  await storeWorkflow("saved-run");
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await change(page, "saved-run", "Shout {{input}}");
  const dialog = await openRunDialog(page, "saved-run");
  await dialog.getByLabel("input").fill("Ada");
  await dialog.getByRole("button", { name: "Run the saved version" }).dblclick();
  await page.waitForURL(/\/runs\//);
  await page.locator(".run-header").getByText("Succeeded").waitFor();
  assert.equal(await page.getByRole("dialog").count(), 0);
  const [run, ...others] = await listRuns("saved-run");
  assert.equal(others.length, 0);
  assert.match(JSON.stringify(await readJson(`runs/${run.run_id}/steps`)), /Say Ada/);
  await page.getByRole("heading", { level: 1 }).getByRole("link").click();
  await page.getByText(/^Draft of/).waitFor();
  await closePage(opened);
});

test("what was typed is there again, and so are the inputs of the last run", async () => {
  await storeWorkflow("typed-run");
  await startRun(studio.address, "typed-run", "Grace", 30);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/workflows/typed-run`);
  let dialog = await openRunDialog(page, "typed-run");
  await dialog.getByLabel("input").fill("half a te");
  await page.keyboard.press("Escape");
  dialog = await openRunDialog(page, "typed-run");
  assert.equal(await dialog.getByLabel("input").inputValue(), "half a te");
  await dialog.getByRole("button", { name: "Use the inputs of the last run" }).click();
  await page.waitForFunction(() => document.querySelector("dialog textarea")?.value === "Grace");
  await closePage(opened);
});

test("files are chosen, lists have a line for each item, and what is missing is named", async () => {
  const text = [
    "---",
    "input:",
    "  topic: {type: text}",
    "  notes: {type: file, fileType: text}",
    "  tags: {type: array}",
    "---",
    "Write about {topic}: {notes} {JSON.stringify(tags)}",
    "",
    '<GenText model="local:none" as="answer" />',
  ].join("\n");
  const stored = await fetch(`${studio.address}/api/v1/workflows/with-file`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ entry: "with-file.mdx", files: { "with-file.mdx": text } }),
  });
  assert.ok(stored.ok, await stored.text());
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/workflows/with-file`);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  const dialog = page.locator("dialog[open]");
  await dialog.getByLabel(/^topic/).fill("tides");
  await dialog.getByLabel(/^tags/).fill("sea\nmoon");
  await dialog.getByRole("button", { name: "Start", exact: true }).click();
  await dialog.getByText("Choose something for “notes”.").waitFor();
  const asked = page.waitForEvent("filechooser");
  await dialog.getByRole("button", { name: "Choose a file" }).click();
  const buffer = Buffer.from("my notes");
  await (await asked).setFiles({ name: "notes.txt", mimeType: "text/plain", buffer });
  await dialog.getByText("notes.txt · 8 bytes").waitFor();
  assert.equal(await dialog.getByText("Choose something").count(), 0);
  await dialog.getByRole("button", { name: "Start", exact: true }).click();
  await page.waitForURL(/\/runs\//);
  const [run] = await listRuns("with-file");
  const { variables } = await readJson(`runs/${run.run_id}/variables?at=1`);
  assert.deepEqual(
    [variables.topic, variables.notes, variables.tags],
    ["tides", "my notes", ["sea", "moon"]],
  );
  await closePage(opened);
});

test("a schedule has inputs and a time in words, and is changed", async () => {
  await storeWorkflow("timed");
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/workflows/timed`);
  await page.getByRole("button", { name: "Triggers" }).click();
  const dialog = page.getByRole("dialog", { name: "Triggers" });
  await dialog.getByLabel("When").selectOption("Monday to Friday");
  await dialog.getByLabel("Time", { exact: true }).fill("07:30");
  await dialog.getByLabel("input").fill("Ada");
  await dialog.getByRole("button", { name: "Add schedule" }).click();
  await dialog.getByText("At 7:30 from Monday to Friday").waitFor();
  const find = async () => (await readJson("schedules")).items.find((one) => one.id === "timed");
  assert.deepEqual([(await find()).cron, (await find()).inputs], ["30 7 * * 1-5", "Ada"]);
  await dialog.getByRole("button", { name: "Edit timed" }).click();
  assert.equal(await dialog.getByLabel("input").inputValue(), "Ada");
  await dialog.getByLabel("input").fill("Grace");
  await dialog.getByLabel("When").selectOption("Cron expression");
  await dialog.getByRole("textbox", { name: "Cron expression" }).fill("61 * * * *");
  await dialog.getByRole("button", { name: "Save schedule" }).click();
  await dialog
    .getByRole("alert")
    .getByText(/“61” is not valid for the minute/)
    .waitFor();
  await dialog.getByRole("textbox", { name: "Cron expression" }).fill("*/10 * * * *");
  await dialog.getByText("Every 10 minutes").waitFor();
  await dialog.getByRole("button", { name: "Save schedule" }).click();
  await dialog.locator("li").getByText("Every 10 minutes").waitFor();
  assert.deepEqual([(await find()).cron, (await find()).inputs], ["*/10 * * * *", "Grace"]);
  assert.equal((await readJson("schedules")).items.length, 1);
  await dialog.getByRole("link", { name: "Runs that timed started" }).click();
  const filter = page.getByRole("combobox", { name: "Filter by what started it" });
  assert.equal(await filter.inputValue(), "schedule:timed");
  await page.getByText("No run matches").waitFor();
  await filter.selectOption("API or studio");
  await page.waitForURL(/trigger=api/);
  await closePage(opened);
});
