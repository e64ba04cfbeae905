// A workflow runs on the local model, and its answer is seen while it arrives.
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { openBrowser, openPage, startStudio } from "./studio.mjs";

/** The model that `make model` fetches. */
const MODEL = "local:smollm2-135m";

test("a run on the local model streams its answer", { timeout: 180_000 }, async () => {
  const prepare = async (folder) => {
    const config = join(folder, "flowloom.toml");
    const text = await readFile(config, "utf8");
    await writeFile(config, text.replace('default_model = "house:small"', `default_model = "${MODEL}"`));
  };
  const studio = await startStudio({ prepare });
  const browser = await openBrowser();
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/workflows/echo`);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByRole("textbox", { name: "topic" }).fill("the moon");
  await page.getByRole("button", { name: "Start" }).click();
  await page.waitForURL(/\/runs\//);
  await page.getByRole("treeitem", { name: /sentence/ }).click();
  const output = page.getByTestId("stream").or(page.getByRole("region", { name: "Output" }));
  await output.first().waitFor({ timeout: 120_000 });
  await page.locator(".run-header").getByText("Succeeded").waitFor({ timeout: 120_000 });
  await page.getByText(MODEL.replace("local:", "")).first().waitFor();
  const run = new URL(page.url()).pathname.split("/").at(-1);
  const { output: said, usage } = await (await fetch(`${studio.address}/api/v1/runs/${run}`)).json();
  assert.ok(said.length > 0 && usage.output_tokens > 0, JSON.stringify({ said, usage }));
  await page.getByRole("region", { name: "Output" }).getByText(said.trim().split(/\s+/)[0]).first().waitFor();
  await opened.context.close();
  await browser.close();
  await studio.close();
  assert.deepEqual(opened.faults, []);
});
