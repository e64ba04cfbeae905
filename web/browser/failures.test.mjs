// The server answers with an error while a definition is edited: the page says which, and what was entered can be made
// again or discarded.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openBrowser, openPage, startStudio } from "./studio.mjs";

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

const FAILURE = {
  status: 500,
  contentType: "application/problem+json",
  body: JSON.stringify({ title: "Error", status: 500, code: "E0901", detail: "The disk is full" }),
};

async function store(id, source) {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${studio.address}/api/v1/workflows/${id}?draft=true`, {
    method: "PUT",
    headers,
    body: typeof source === "string" ? source : JSON.stringify(source),
  });
  assert.ok(answer.ok, await answer.text());
}

async function open(address) {
  const opened = await openPage(browser, studio.address);
  opened.page.setDefaultTimeout(10_000);
  await opened.page.goto(`${studio.address}/workflows/${address}`);
  return opened;
}

/** Closes a page on which requests failed on purpose. */
async function close({ context, faults }) {
  await context.close();
  assert.deepEqual(
    faults.filter((fault) => !/Failed to load resource/.test(fault)),
    [],
  );
}

const STEP = { functionId: "agent::chat", mode: "sequential", errorMode: "fail", promptTemplate: "one" };

async function openPrompt(id) {
  await store(id, { id, name: id, steps: [{ ...STEP, name: "a" }] });
  const opened = await open(`${id}?view=build`);
  await opened.page.locator(".part", { hasText: "a" }).last().click();
  const prompt = opened.page.getByLabel(/^Prompt template/);
  await prompt.waitFor();
  return { ...opened, prompt };
}

test("a change at which the server fails is named, and can be discarded", async () => {
  const opened = await openPrompt("failed-change");
  const { page, context, prompt } = opened;
  await context.route("**/definitions/edit", (route) => route.fulfill(FAILURE));
  const alert = page.getByRole("alert").filter({ hasText: "The change could not be made: The disk is full" });
  await prompt.fill("two");
  await alert.getByRole("link", { name: "E0901" }).waitFor();
  await page.keyboard.press("Control+s");
  await page.getByText("Not saved. The server failed at a change: The disk is full (E0901).").waitFor();
  assert.equal(await page.getByText("cannot be reached").count(), 0);
  await page.getByRole("button", { name: "Discard the change", exact: true }).click();
  await alert.waitFor({ state: "detached" });
  assert.equal(await prompt.inputValue(), "one");
  assert.equal(await page.getByText(/Not saved|Unsaved changes/).count(), 0);
  await close(opened);
});

test("undo takes a change back that could not be made, and so does discarding all changes", async () => {
  const opened = await openPrompt("undone-change");
  const { page, context, prompt } = opened;
  await context.route("**/definitions/edit", (route) => route.fulfill(FAILURE));
  const again = page.getByRole("button", { name: "Try again" });
  for (const name of ["Undo", "Discard the changes"]) {
    await prompt.fill("two");
    await again.waitFor();
    await page.getByRole("button", { name, exact: true }).click();
    // A retry hides its button, and leaves the message.
    await page.getByText("The change could not be made").waitFor({ state: "detached" });
    assert.equal(await prompt.inputValue(), "one");
    assert.equal(await page.getByText("Unsaved changes").count(), 0);
  }
  await close(opened);
});

test("the source says that its problems are not known", async () => {
  await store("unchecked", { id: "unchecked", name: "unchecked", steps: [{ ...STEP, name: "a" }] });
  const opened = await openPage(browser, studio.address);
  const { page, context } = opened;
  page.setDefaultTimeout(10_000);
  for (const question of ["check", "graph"])
    await context.route(`**/api/v1/${question}`, (route) => route.fulfill(FAILURE));
  await page.goto(`${studio.address}/workflows/unchecked`);
  const problems = page.getByRole("region", { name: "Problems" });
  await problems.getByText("are not known: The disk is full").waitFor();
  await page.getByText("The graph is not known.").waitFor();
  assert.equal(await page.getByText("No problems").count(), 0);
  for (const question of ["check", "graph"]) await context.unroute(`**/api/v1/${question}`);
  await problems.getByRole("button", { name: "Try again" }).click();
  await problems.getByText("No problems").waitFor();
  await page.locator(".node").first().waitFor();
  await close(opened);
});

test("parts and the form of a file that cannot be read are asked for again", async () => {
  const block = { id: "shorten", name: "Shorten", execution_type: "llm", prompt_template: "Shorten: {text}" };
  await store("with-files", {
    entry: "with-files.json",
    files: {
      "with-files.json": JSON.stringify({
        id: "with-files",
        nodes: [{ id: "n1", block_id: "shorten" }],
        edges: [],
      }),
      "blocks/shorten.json": JSON.stringify(block),
    },
  });
  const opened = await openPage(browser, studio.address);
  const { page, context } = opened;
  page.setDefaultTimeout(10_000);
  await context.route("**/definitions/inspect", (route) => route.fulfill(FAILURE));
  await page.goto(`${studio.address}/workflows/with-files?view=build`);
  const unknown = page.getByText("The parts of this definition are not known: The disk is full");
  await unknown.waitFor();
  await context.unroute("**/definitions/inspect");
  await page.getByRole("button", { name: "Try again" }).click();
  const file = page.locator(".builder-parts").getByText("blocks/shorten.json");
  await file.waitFor();
  await context.route("**/definitions/inspect", (route) => route.fulfill(FAILURE));
  await file.click();
  await unknown.waitFor();
  await context.unroute("**/definitions/inspect");
  await page.getByRole("button", { name: "Try again" }).click();
  await unknown.waitFor({ state: "detached" });
  await page.locator(".builder-form .field").first().waitFor();
  await close(opened);
});

test("a definition with errors says so instead of its graph", async () => {
  const steps = ["a", "b"].map((name) => ({ ...STEP, name, mode: "nothing" }));
  await store("faulty", { id: "faulty", name: "faulty", steps });
  const opened = await open("faulty?view=build");
  const graph = opened.page.getByRole("region", { name: "Graph" });
  await graph.getByText("There is no graph until the errors are fixed.").waitFor();
  await close(opened);
});
