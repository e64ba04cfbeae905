// Keys in a browser: what the key of the tab permits is said before somebody works for it, a wrong key is reported, another
// one is used, and the first key locks nobody out.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import { closePage, openBrowser, openPage, PROGRAM, startStudio } from "./studio.mjs";

let browser;
const studios = [];

/** A studio that is closed at the end. */
async function open(options) {
  const studio = await startStudio(options);
  studios.push(studio);
  return studio;
}

before(async () => {
  browser = await openBrowser();
});

after(async () => {
  await browser?.close();
  for (const studio of studios) await studio.close();
});

const DEFINITION = {
  id: "owned",
  name: "Owned",
  steps: [
    { name: "a", functionId: "agent::chat", mode: "sequential", errorMode: "fail", promptTemplate: "hi" },
  ],
};

/** A studio with a key for reading, one for everything and those that `createMore` creates, and a stored workflow. */
async function startProtected(createMore = () => ({})) {
  const studio = await open({
    prepare: (folder) => {
      const create = (name, scopes, more = []) =>
        JSON.parse(
          execFileSync(PROGRAM, ["keys", "create", "--name", name, "--scopes", scopes, "--json", ...more], {
            cwd: folder,
            encoding: "utf8",
          }),
        ).key;
      return { reader: create("reader", "read,run"), admin: create("boss", "admin"), ...createMore(create) };
    },
  });
  await fetch(`${studio.address}/api/v1/workflows/owned`, {
    method: "PUT",
    headers: { "content-type": "application/json", authorization: `Bearer ${studio.prepared.admin}` },
    body: JSON.stringify(DEFINITION),
  });
  return studio;
}

async function enterKey(page, key) {
  await page.getByRole("textbox", { name: "API key" }).fill(key);
  await page.getByRole("button", { name: "Continue" }).click();
}

test("a wrong key is reported where it was entered, and a key without write offers no changes", async () => {
  const studio = await startProtected();
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  page.setDefaultTimeout(10_000);
  await page.goto(studio.address);
  await enterKey(page, "fl_wrong");
  const dialog = page.getByRole("dialog", { name: "Enter an API key" });
  await dialog.getByText("The server does not accept this key.").waitFor();
  await enterKey(page, studio.prepared.reader);
  await page.getByText(/lacks the scope write/).waitFor();
  for (const name of ["New workflow", "Describe what you want"]) {
    assert.equal(await page.getByRole("link", { name }).count(), 0, name);
  }
  await page.getByRole("link", { name: "Owned" }).click();
  await page.getByText(/lacks the scope write/).waitFor();
  for (const name of ["Save", "Triggers", "Delete the workflow"]) {
    assert.equal(await page.getByRole("button", { name, exact: true }).count(), 0, name);
  }
  assert.ok(await page.getByRole("button", { name: "Run", exact: true }).isEnabled());
  // Another key is found in the settings.
  await page.getByRole("link", { name: "Settings" }).click();
  const own = page.getByRole("region", { name: "This tab" });
  await own.getByText("The key reader may read, may start runs and answer questions.").waitFor();
  await own.getByRole("button", { name: "Use another key" }).click();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await own.getByRole("button", { name: "Use another key" }).click();
  await enterKey(page, studio.prepared.admin);
  await own.getByText("The key boss may do everything.").waitFor();
  await opened.context.close();
  assert.deepEqual(
    opened.faults.filter((fault) => !/status of 40[13]/.test(fault)),
    [],
  );
});

test("a key that is revoked while a run is open is named, and what is drawn stays", async () => {
  const studio = await startProtected();
  const send = (method, path, body) =>
    fetch(`${studio.address}/api/v1/${path}`, {
      method,
      headers: { "content-type": "application/json", authorization: `Bearer ${studio.prepared.admin}` },
      ...(body && { body: JSON.stringify(body) }),
    }).then((response) => response.json().catch(() => undefined));
  const { run_id: run } = await send("POST", "runs?wait=30", {
    workflow: "support-reply",
    inputs: "My lamp arrived broken!",
  });
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  page.setDefaultTimeout(20_000);
  await page.goto(`${studio.address}/runs/${run}`);
  await enterKey(page, studio.prepared.reader);
  await page.locator(".node").first().waitFor();
  const { items } = await send("GET", "keys");
  await send("DELETE", `keys/${items.find(({ name }) => name === "reader").id}`);
  await page.locator(".run-header").getByText("Your key is no longer accepted.").waitFor();
  assert.ok((await page.locator(".node").count()) > 0);
  assert.equal(await page.getByText(/Connection lost|cannot be drawn/).count(), 0);
  await enterKey(page, studio.prepared.admin);
  await page
    .locator(".run-header")
    .getByText("Your key is no longer accepted.")
    .waitFor({ state: "detached" });
  await opened.context.close();
});

test("what one user has not saved is not offered to the next user of the browser", async () => {
  const studio = await startProtected((create) => ({
    ann: create("ann", "read,write", ["--user", "ann"]),
    bob: create("bob", "read,write", ["--user", "bob"]),
  }));
  const opened = await openPage(browser, studio.address);
  const { page, context } = opened;
  const address = `${studio.address}/workflows/owned`;
  /** Opens the workflow in a tab, which has no key yet. */
  const openAs = async (tab, key) => {
    tab.setDefaultTimeout(20_000);
    await tab.goto(address);
    await enterKey(tab, key);
    await tab.getByRole("tab", { name: "Source" }).first().click();
    await tab.getByRole("textbox", { name: /Source of/ }).waitFor();
  };
  await openAs(page, studio.prepared.ann);
  await page.getByRole("textbox", { name: /Source of/ }).click();
  await page.keyboard.press("Control+End");
  await page.keyboard.insertText("\n\n");
  await page.waitForFunction(() => Object.keys(localStorage).some((key) => /^unsaved .* owned /.test(key)));
  await page.close({ runBeforeUnload: false });
  const other = await context.newPage();
  await openAs(other, studio.prepared.bob);
  const offer = /This browser has changes of .* that were not saved/;
  assert.equal(await other.getByText(offer).count(), 0);
  const again = await context.newPage();
  await openAs(again, studio.prepared.ann);
  await again.getByText(offer).waitFor();
  await context.close();
});

test("the first key may create others, unless somebody confirms that it need not", async () => {
  const studio = await open();
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  page.setDefaultTimeout(10_000);
  await page.goto(`${studio.address}/settings`);
  await page.getByRole("button", { name: "New key" }).click();
  const dialog = page.getByRole("dialog", { name: "New key" });
  await dialog.getByText("This is the first key.").waitFor();
  assert.ok(await dialog.getByRole("checkbox", { name: "admin", exact: true }).isChecked());
  await dialog.getByLabel("Name").fill("first");
  await dialog.getByRole("checkbox", { name: "admin", exact: true }).uncheck();
  await dialog.getByRole("checkbox", { name: "read", exact: true }).check();
  await dialog.getByText(/nobody can create keys/).waitFor();
  const create = dialog.getByRole("button", { name: "Create" });
  assert.ok(await create.isDisabled());
  await dialog.getByRole("checkbox", { name: /in the terminal/ }).check();
  assert.ok(await create.isEnabled());
  await dialog.getByRole("checkbox", { name: "admin", exact: true }).check();
  await create.click();
  await dialog.getByText("Copy the key now.").waitFor();
  await closePage(opened);
});

test("a mistyped address shows the page, which says so", async () => {
  const studio = await open();
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  page.setDefaultTimeout(10_000);
  for (const path of ["workflow/echo", "nonsense", "workflows/echo/more"]) {
    await page.goto(`${studio.address}/${path}`);
    await page.getByRole("heading", { name: "There is nothing here" }).waitFor();
    await page.getByRole("link", { name: "Go to the start" }).waitFor();
  }
  await opened.context.close();
  assert.deepEqual(
    opened.faults.filter((fault) => !/status of 404/.test(fault)),
    [],
  );
});
