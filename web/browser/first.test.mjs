// The first start, in an empty folder: an example is added with one click, and runs.
import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { openBrowser, openPage, startStudio } from "./studio.mjs";

const FILES = ["many", "support-reply", "echo", "broken", "hostile", "clerk", "helpdesk"];

let studio;
let browser;

before(async () => {
  const prepare = (folder) => Promise.all(FILES.map((name) => rm(join(folder, `${name}.json`))));
  studio = await startStudio({ prepare });
  browser = await openBrowser();
});

after(async () => {
  await browser?.close();
  await studio?.close();
});

test("an example is added and runs", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(studio.address);
  await page.getByText("Start with a workflow").waitFor();
  await page.getByRole("button", { name: "Add an example" }).click();
  await page.waitForURL(/workflows\/hello/);
  await page.getByText("No problems").waitFor();
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByLabel("input").fill("Ada");
  await page.getByRole("button", { name: "Start" }).click();
  await page.getByRole("tree").waitFor();
  await page.getByText("Succeeded").first().waitFor();
  await opened.context.close();
  assert.deepEqual(opened.faults, []);
});
