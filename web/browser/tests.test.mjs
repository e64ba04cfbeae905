// Tests of workflows in a browser: a run is saved as a test, run, and fails when the definition changes.
import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { AxeBuilder } from "@axe-core/playwright";
import { chooseAction, openBrowser, openPage, startRun, startStudio } from "./studio.mjs";

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
  await chooseAction(page, "Save as test");
  const downloading = page.waitForEvent("download");
  await page.getByRole("dialog", { name: "Save as test" }).getByRole("button", { name: "Download" }).click();
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
  await page.goto(studio.address);
  const card = page
    .getByRole("listitem")
    .filter({ has: page.getByRole("heading", { name: "Echo a topic" }) });
  // The page was loaded again, and no longer knows what was found.
  await card.getByRole("link", { name: "1 test", exact: true }).click();
  await page.getByText("Tests of Echo a topic").waitFor();
  await page.getByRole("button", { name: "Run all" }).click();
  await page.getByText("0 passed, 1 failed").waitFor();
  await page.goto(`${studio.address}/workflows/echo`);
  await page.getByRole("link", { name: "Tests (1)" }).click();
  await page.getByText("Tests of Echo a topic").waitFor();
  await page.getByRole("button", { name: "Run all" }).click();
  await page.getByText("0 passed, 1 failed").waitFor();
  await page.getByRole("link", { name: "Home" }).click();
  await card.getByRole("link", { name: "1 test failed" }).click();
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

test("a test of a workflow in the database is saved, fails after a change, and is accepted", async () => {
  const step = { name: "a", functionId: "agent::chat", mode: "sequential", errorMode: "fail" };
  const storeWorkflow = (promptTemplate) =>
    fetch(`${studio.address}/api/v1/workflows/mine`, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ id: "mine", name: "Mine", steps: [{ ...step, promptTemplate }] }),
    });
  await storeWorkflow("Say {{input}}");
  const run = await startRun(studio.address, "mine", "tea", 30);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/runs/${run}`);
  await page.locator(".run-header").getByText("Succeeded").waitFor();
  await chooseAction(page, "Save as test");
  const dialog = page.getByRole("dialog", { name: "Save as test" });
  await dialog.getByRole("button", { name: "Save in the project" }).click();
  await dialog.getByText("tests/mine.json").waitFor();
  await storeWorkflow("Sing {{input}}");
  await dialog.getByRole("link", { name: "Open tests" }).click();
  await page.getByText("Tests of Mine").waitFor();
  await page.getByRole("button", { name: "Run all" }).click();
  await page.locator("[data-change=added]", { hasText: "Sing" }).first().waitFor();
  await page.getByRole("button", { name: "Accept Mine" }).click();
  await page
    .getByRole("dialog", { name: "Accept what happens now?" })
    .getByRole("button", { name: "Accept", exact: true })
    .click();
  await page.getByText("Accepted", { exact: true }).waitFor();
  assert.match(await readFile(join(studio.folder, "tests", "mine.json"), "utf8"), /Sing/);

  // A second test with the same name replaces the file only when asked to.
  await page.goto(`${studio.address}/runs/${run}`);
  await page.locator(".run-header").getByText("Succeeded").waitFor();
  await chooseAction(page, "Save as test");
  await dialog.getByRole("button", { name: "Save in the project" }).click();
  await dialog.getByText("there is already a file").waitFor();
  await dialog.getByRole("button", { name: "Replace the file" }).click();
  await dialog.getByText("The test is saved").waitFor();
  await opened.context.close();
  // The refusal is the only fault.
  assert.deepEqual(
    opened.faults.map((fault) => fault.includes("409")),
    [true],
    String(opened.faults),
  );
});
