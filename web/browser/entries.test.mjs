// What is being entered in the forms of a workflow: it is saved, kept and asked about like text that is there already.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { closePage, openBrowser, openPage, startStudio } from "./studio.mjs";

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

function addressOf(id) {
  return `${studio.address}/api/v1/workflows/${id}`;
}

async function readStored(id) {
  return JSON.stringify(await (await fetch(`${addressOf(id)}/source`)).json());
}

const STEP = { functionId: "agent::chat", errorMode: "fail", promptTemplate: "one" };

/** Stores a workflow, and opens the form of one of its steps. */
async function openStepOf(id, steps, name) {
  const body = JSON.stringify({ id, name: id, steps });
  const headers = { "content-type": "application/json" };
  assert.ok((await fetch(addressOf(id), { method: "PUT", headers, body })).ok);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  page.setDefaultTimeout(10_000);
  await page.goto(`${studio.address}/workflows/${id}`);
  await page.getByRole("tab", { name: "Build" }).click();
  await page.locator(".part", { hasText: name }).last().click();
  const prompt = page.getByLabel(/^Prompt template/);
  await prompt.waitFor();
  return { ...opened, prompt };
}

/** Stores a workflow with one step, and opens the form of the step. */
function openStep(id) {
  return openStepOf(id, [{ ...STEP, name: "a", mode: "loop", maxIterations: 2, until: "never" }], "a");
}

/** Stores a workflow with three steps, and opens the form of the second. */
function openSecondStep(id) {
  const steps = ["first", "second", "third"].map((name) => ({ ...STEP, name, mode: "sequential" }));
  return openStepOf(id, steps, "second");
}

/** Types at the end of a field, and goes on at once. */
async function type(page, field, text) {
  await field.focus();
  await page.keyboard.press("End");
  await page.keyboard.type(text);
}

/** Closes a page on which requests were refused or failed on purpose. */
async function closeAfterFailures({ context, faults }) {
  await context.close();
  assert.deepEqual(
    faults.filter((fault) => !/Failed to load resource/.test(fault)),
    [],
  );
}

test("saving takes along what was typed just before, by key and by button", async () => {
  const opened = await openStep("saved-at-once");
  const { page, prompt } = opened;
  const isSaved = () => page.getByText("Saved", { exact: true }).waitFor();
  await type(page, prompt, " two");
  await page.keyboard.press("Control+s");
  await isSaved();
  assert.match(await readStored("saved-at-once"), /one two/);
  await type(page, prompt, " three");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await isSaved();
  assert.match(await readStored("saved-at-once"), /one two three/);
  // A run uses the saved version, and its dialog knows that there is a newer text.
  await type(page, prompt, " four");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("dialog").getByText("You have unsaved changes.").waitFor();
  await closePage(opened);
});

test("whoever leaves right after typing is asked, also while the server is slow", async () => {
  const opened = await openStep("left-at-once");
  const { page, prompt, context } = opened;
  let answerEdit;
  const isAnswered = new Promise((resolve) => {
    answerEdit = resolve;
  });
  await context.route("**/definitions/edit", async (route) => {
    await isAnswered;
    await route.continue();
  });
  await type(page, prompt, " two");
  await page.getByRole("link", { name: "Runs" }).click();
  const dialog = page.getByRole("dialog", { name: "Leave without saving?" });
  await dialog.getByRole("button", { name: "Keep as draft" }).click();
  answerEdit();
  await page.waitForURL(/\/runs/);
  await page.goto(`${studio.address}/workflows/left-at-once`);
  await page.getByText(/^Draft of/).waitFor();
  await page.waitForFunction(() =>
    document.querySelector(".editor")?.shadowRoot?.textContent.includes("one two"),
  );
  await closePage(opened);
});

test("a change that could not be made is made when the definition is saved", async () => {
  const opened = await openStep("kept-change");
  const { page, prompt, context } = opened;
  await context.route("**/definitions/edit", (route) => route.abort());
  await type(page, prompt, " two");
  await page.keyboard.press("Control+s");
  await page.getByText("Not saved. The server cannot be reached.").waitFor();
  await page.getByText("Unsaved changes").waitFor();
  await page.getByRole("button", { name: "Try again" }).waitFor();
  await context.unroute("**/definitions/edit");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("Saved", { exact: true }).waitFor();
  assert.match(await readStored("kept-change"), /one two/);
  assert.equal(await prompt.inputValue(), "one two");
  await closeAfterFailures(opened);
});

test("changes that wait are made to their own step, also if an earlier one moves it", async () => {
  const opened = await openSecondStep("kept-changes");
  const { page, prompt, context } = opened;
  await context.route("**/definitions/edit", (route) => route.abort());
  await page.getByRole("button", { name: "Move up" }).click();
  await page.getByText("The server cannot be reached.").first().waitFor();
  await type(page, prompt, " two");
  await page.getByRole("button", { name: "Add step", exact: true }).click();
  await page.getByRole("searchbox", { name: "Search kinds" }).fill("sequential");
  await page.keyboard.press("Enter");
  await context.unroute("**/definitions/edit");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("Saved", { exact: true }).waitFor();
  const { files, entry } = JSON.parse(await readStored("kept-changes"));
  const steps = JSON.parse(files[entry]).steps.map(({ name, promptTemplate }) => [name, promptTemplate]);
  const [added] = steps[1];
  assert.ok(added.startsWith("answer"), added);
  assert.deepEqual(
    [steps[0], ...steps.slice(2)],
    [
      ["second", "one two"],
      ["first", "one"],
      ["third", "one"],
    ],
  );
  await closeAfterFailures(opened);
});

test("the graph of a definition with errors still leads to its steps", async () => {
  const opened = await openSecondStep("broken-graph");
  const { page } = opened;
  const selectNode = async (name) => {
    await page.locator(".node", { hasText: name }).click();
    await page.getByRole("region", { name: "Form" }).getByRole("heading", { name, exact: true }).waitFor();
  };
  await selectNode("third");
  const field = page.getByLabel(/^Function/).first();
  await field.fill("shop::nothing");
  await field.blur();
  await page.getByText("there is no function").first().waitFor();
  await page.locator(".node[data-marked=error]", { hasText: "third" }).waitFor();
  await selectNode("first");
  await selectNode("third");
  await closePage(opened);
});

test("an entry that is no number is named, and nothing is saved without it", async () => {
  const opened = await openStep("no-number");
  const { page } = opened;
  const field = page.getByLabel(/^Max iterations/).first();
  await field.fill("abc");
  await page.keyboard.press("Control+s");
  await page.getByText("Not saved. “Max iterations”: This is not a number.").waitFor();
  await field.fill("3");
  await page.keyboard.press("Control+s");
  await page.getByText("Saved", { exact: true }).waitFor();
  assert.match(await readStored("no-number"), /maxIterations\\?":\s*3/);
  await closePage(opened);
});

test("a choice is taken back with the key while its field has the focus", async () => {
  const opened = await openStep("choice");
  const { page } = opened;
  const choice = page.getByLabel(/^If it fails/).first();
  await choice.selectOption("skip");
  await page.getByRole("button", { name: "Undo" }).and(page.locator(":enabled")).waitFor();
  await choice.focus();
  await page.keyboard.press("Control+z");
  await page.getByText("Unsaved changes").waitFor({ state: "detached" });
  await page.waitForFunction((field) => field.value === "fail", await choice.elementHandle());
  await closePage(opened);
});

test("a workflow that someone else deleted is saved as a new one", async () => {
  const opened = await openStep("deleted-elsewhere");
  const { page, prompt } = opened;
  await type(page, prompt, " two");
  assert.ok((await fetch(addressOf("deleted-elsewhere"), { method: "DELETE" })).ok);
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("Someone else deleted this meanwhile.").waitFor();
  assert.equal(await prompt.inputValue(), "one two");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("Saved", { exact: true }).waitFor();
  assert.match(await readStored("deleted-elsewhere"), /one two/);
  await closeAfterFailures(opened);
});
