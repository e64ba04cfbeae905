// A workflow begins with a ready pipeline: each is stored without problems, and one runs.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { AxeBuilder } from "@axe-core/playwright";
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

const readJson = async (path) => (await fetch(`${studio.address}/api/v1/${path}`)).json();

test("every ready pipeline is created without problems", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  page.setDefaultTimeout(10_000);
  await page.goto(`${studio.address}/new`);
  const choices = page.getByRole("group", { name: "Or begin with a ready pipeline" }).getByRole("radio");
  await choices.first().waitFor();
  const ids = await choices.evaluateAll((fields) => fields.map((field) => field.value));
  assert.ok(ids.length >= 6, ids.join());
  const { violations } = await new AxeBuilder({ page }).analyze();
  assert.deepEqual(
    violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`),
    [],
  );
  for (const id of ids) {
    await page.goto(`${studio.address}/new`);
    await page.locator(`input[value="${id}"]`).check();
    // The name of the pipeline is proposed, and with it an id.
    await page.getByLabel("Name of the new workflow").fill(`My ${id}`);
    await page.getByRole("button", { name: "Create" }).click();
    await page.waitForURL(new RegExp(`/workflows/my-${id}`));
    await page.getByRole("heading", { level: 1, name: `My ${id}` }).waitFor();
    const workflow = await readJson(`workflows/my-${id}`);
    assert.deepEqual([workflow.is_refused, workflow.problems], [false, []]);
  }
  await closePage(opened);
});

test("a ready pipeline runs", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/new?template=page-digest`);
  assert.equal(await page.getByLabel("Name of the new workflow").inputValue(), "Digest of a page");
  await page.getByRole("button", { name: "Create" }).click();
  await page.waitForURL(/workflows\/digest-of-a-page/);
  // The tests reach no page but that of their own server.
  const [, port] = /127.0.0.1:(\d+)/.exec(await readFile(join(studio.folder, "flowloom.toml"), "utf8"));
  const { entry, files } = await readJson("workflows/digest-of-a-page/source");
  const changed = files[entry].replace("https://example.com/", `http://127.0.0.1:${port}/`);
  const stored = await fetch(`${studio.address}/api/v1/workflows/digest-of-a-page`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: changed,
  });
  assert.ok(stored.ok, await stored.text());
  const run = await readJson(`runs/${await startRun(studio.address, "digest-of-a-page", {}, 60)}`);
  assert.equal(run.status, "succeeded", JSON.stringify(run));
  const [notification] = await readJson("notifications");
  assert.match(notification.body, /The sea is calm today/);
  await closePage(opened);
});
