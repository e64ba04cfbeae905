// A pipeline from plain language: the question, the stages, the rehearsal, and a run of the result.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { AxeBuilder } from "@axe-core/playwright";
import { openBrowser, openPage, startStudio, waitForCount } from "./studio.mjs";

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

/** The dry run is moved through like any other run: its outputs follow the position. */
async function moveThroughDryRun(dryRun) {
  const outputs = dryRun.locator(".create-node");
  await waitForCount(outputs, 2);
  await outputs.filter({ hasText: "notify_push" }).getByText("from an example").waitFor();
  await dryRun.getByRole("button", { name: "First event" }).click();
  await dryRun.getByText("No output at this position.").waitFor();
  assert.equal(await outputs.count(), 0);
  await dryRun.getByRole("slider").focus();
  await dryRun.page().keyboard.press("End");
  await waitForCount(outputs, 2);
  await dryRun.getByRole("treeitem", { name: /notify_push/ }).click();
  await waitForCount(outputs, 1);
}

test("a goal becomes a pipeline that runs", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/create`);
  await page.getByRole("textbox").fill("Notify me of the most frequent words of a text");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByText("Which text?").waitFor();
  await page.getByRole("textbox").fill("The sea was there. It was big.");
  await page.keyboard.press("Control+Enter");
  await page.getByText("Passed its trials").waitFor();
  await page.getByRole("button", { name: "Version 1" }).click();
  await page.getByText(/does not fit output_schema/).waitFor();
  await page.getByRole("button", { name: "Run it" }).waitFor();
  const { violations } = await new AxeBuilder({ page }).analyze();
  assert.deepEqual(
    violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`),
    [],
  );
  // The address shows the same after a reload.
  await page.reload();
  await moveThroughDryRun(page.getByRole("region", { name: "Dry run" }));
  await page.getByRole("button", { name: "Run it" }).click();
  await page.getByRole("tree").waitFor();
  await page.getByText("Succeeded").first().waitFor();
  await opened.context.close();
  assert.deepEqual(opened.faults, []);
});
