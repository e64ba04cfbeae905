// The first start, in an empty folder: an example is added with one click, and runs.
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { closePage, openBrowser, openPage, startStudio } from "./studio.mjs";

const FILES = ["many", "support-reply", "echo", "broken", "hostile", "clerk", "helpdesk"];

let studio;
/** A studio without a model. */
let bare;
let browser;

before(async () => {
  const prepare = (folder) => Promise.all(FILES.map((name) => rm(join(folder, `${name}.json`))));
  studio = await startStudio({ prepare });
  browser = await openBrowser();
});

after(async () => {
  await browser?.close();
  await studio?.close();
  await bare?.close();
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

test("without a model every start says so, and the example needs none", async () => {
  const prepare = async (folder) => {
    await Promise.all(FILES.map((name) => rm(join(folder, `${name}.json`))));
    await writeFile(join(folder, "flowloom.toml"), "");
  };
  // A home without installed models.
  const home = await mkdtemp(join(tmpdir(), "home-"));
  bare = await startStudio({
    prepare,
    environment: { HOME: home, XDG_DATA_HOME: home, XDG_CACHE_HOME: home },
  });
  const opened = await openPage(browser, bare.address);
  const { page } = opened;
  await page.goto(`${bare.address}/create`);
  await page.getByText("No model is set up.").waitFor();
  await page.goto(bare.address);
  await page.getByText("No model is set up.").waitFor();
  await page.getByRole("button", { name: "Add an example" }).click();
  await page.waitForURL(/workflows\/hello/);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByLabel("input").fill("Ada");
  await page.getByText("Worst case").or(page.getByText("What this run can cost")).first().waitFor();
  assert.equal(await page.getByRole("dialog").getByText("No model is set up.").count(), 0);
  await page.getByRole("button", { name: "Start" }).click();
  for (const value of ["Hello Ada", "yes"]) {
    const field = page.getByLabel("Answer", { exact: true });
    await field.waitFor();
    await page.waitForFunction(() => document.querySelector(".answer textarea, .answer input")?.value === "");
    await field.fill(value);
    await page.getByRole("button", { name: "Send answer" }).click();
  }
  await page.locator(".run-header").getByText("Succeeded").waitFor();
  await page.goto(`${bare.address}/new?format=steps`);
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.locator(".field", { hasText: "Name of the new workflow" }).getByText("Enter a name.").waitFor();
  await page.getByLabel("Name of the new workflow").fill("Отчёт недели");
  const id = page.getByLabel("Id of the new workflow");
  assert.match(await id.inputValue(), /^steps-\w+$/);
  await id.fill("две недели");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page
    .locator(".field", { hasText: "Id of the new workflow" })
    .getByText("is not a valid id")
    .waitFor();
  await page.goto(`${bare.address}/new?format=pipeline`);
  await page.getByLabel("Name of the new workflow").fill("Отчёт недели");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.waitForURL(`${bare.address}/workflows/${encodeURIComponent("отчёт-недели")}*`);
  await page.getByRole("heading", { name: "Отчёт недели" }).waitFor();
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByRole("dialog").getByText("No model is set up.").waitFor();
  await closePage(opened);
});

test("a file that is no workflow is refused in plain words, and one that is cut off becomes a draft", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(studio.address);
  const add = (name, text) =>
    page
      .getByLabel("Add files")
      .and(page.locator("input"))
      .setInputFiles({ name, mimeType: "text/plain", buffer: Buffer.from(text) });
  for (const [name, text] of [
    ["notes.txt", "Buy milk."],
    ["photo.json", "\u0000\u0001"],
  ]) {
    await add(name, text);
    await page.getByText(`${name} is not a workflow.`).waitFor();
    await page.locator(".drop-error").getByRole("button", { name: "Close" }).click();
    await page.locator(".drop-error").waitFor({ state: "detached" });
  }
  await add("cut.json", '{"foo": [1,2');
  await page.getByRole("button", { name: "Add it as a draft" }).click();
  await page.waitForURL(/workflows\/cut/);
  await closePage(opened);
});
