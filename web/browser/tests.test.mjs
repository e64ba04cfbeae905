// Tests of workflows in a browser: a run is saved as a test, run, and fails when the definition changes.
import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { AxeBuilder } from "@axe-core/playwright";
import { openBrowser, openPage, startRun, startStudio } from "./studio.mjs";

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

test("a run becomes a test, which fails when the definition changes", async () => {
  const run = await startRun(studio.address, "echo", { topic: "tea" }, 30);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/tests`);
  await page.getByText("No test yet").waitFor();
  await page.goto(`${studio.address}/runs/${run}`);
  const downloading = page.waitForEvent("download");
  await page.getByRole("button", { name: "Save as test" }).click();
  const download = await downloading;
  assert.equal(download.suggestedFilename(), "echo-a-topic.json");
  await mkdir(join(studio.folder, "tests"));
  await download.saveAs(join(studio.folder, "tests", "echo.json"));

  await page.goto(`${studio.address}/tests`);
  await page.getByRole("button", { name: "Run all" }).click();
  await page.getByText("1 passed, 0 failed").waitFor();
  const file = join(studio.folder, "echo.json");
  await writeFile(file, (await readFile(file, "utf8")).replaceAll("one sentence about", "one line about"));
  await page.getByRole("button", { name: "Run all" }).click();
  await page.getByText("0 passed, 1 failed").waitFor();
  await page.locator("[data-change=added]", { hasText: "one line about" }).first().waitFor();
  // A button under the pointer is brighter, which the check of contrast does not compute.
  await page.mouse.move(0, 0);
  const { violations } = await new AxeBuilder({ page }).analyze();
  assert.deepEqual(
    violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`),
    [],
  );
  await opened.context.close();
  assert.deepEqual(opened.faults, []);
});

test("a test of a workflow in the database is saved together with the definition", async () => {
  const step = { name: "a", functionId: "agent::chat", mode: "sequential", errorMode: "fail" };
  const definition = { id: "mine", name: "Mine", steps: [{ ...step, promptTemplate: "Say {{input}}" }] };
  await fetch(`${studio.address}/api/v1/workflows/mine`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(definition),
  });
  const run = await startRun(studio.address, "mine", "tea", 30);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/runs/${run}`);
  await page.locator(".run-header").getByText("Succeeded").waitFor();
  await page.waitForLoadState("networkidle");
  await page.getByRole("button", { name: "Save as test" }).click();
  const dialog = page.getByRole("dialog", { name: "Save as test" });
  const save = async (name) => {
    const downloading = page.waitForEvent("download");
    await dialog.getByRole("button", { name }).click();
    return downloading;
  };
  await (await save("Save definition")).saveAs(join(studio.folder, "mine.json"));
  await mkdir(join(studio.folder, "tests"), { recursive: true });
  await (await save("Save test")).saveAs(join(studio.folder, "tests", "mine.json"));
  const result = await fetch(`${studio.address}/api/v1/tests`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ files: ["mine.json"] }),
  });
  const { items } = await result.json();
  assert.deepEqual([items.length, items[0]?.passed], [1, true], JSON.stringify(items));
  await opened.context.close();
  assert.deepEqual(opened.faults, []);
});
