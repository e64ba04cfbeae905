// The library and the settings in a browser: blocks are found, created, changed, tried and deleted; keys and memory.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { AxeBuilder } from "@axe-core/playwright";
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

async function storeDefinition(kind, id, definition) {
  const response = await fetch(`${studio.address}/api/v1/${kind}/${id}`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(definition),
  });
  assert.ok(response.ok, await response.text());
}

async function assertAccessible(page) {
  await page.mouse.move(0, 0);
  const { violations } = await new AxeBuilder({ page }).analyze();
  assert.deepEqual(
    violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`),
    [],
  );
}

async function open(place) {
  const opened = await openPage(browser, studio.address);
  await opened.page.goto(`${studio.address}/${place}`);
  return opened;
}

test("a block is created, changed, tried, restored and deleted", async () => {
  const opened = await open("library");
  const { page } = opened;
  await page.getByRole("button", { name: "New", exact: true }).click();
  await page.getByLabel("Id").fill("shout");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("heading", { name: "shout" }).waitFor();
  await page.getByRole("tab", { name: "JSON" }).click();
  const source = page.getByRole("textbox", { name: "Definition" });
  const before = await source.inputValue();
  await source.fill(before.replace('inputs[\\"text\\"]}', 'inputs[\\"text\\"].upper()}'));
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Version 2").waitFor();
  await page.getByLabel(/^text/).fill("hello");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText("HELLO", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Version 1" }).click();
  await page.waitForFunction(
    () => document.querySelector(".library-source")?.value.includes("upper") === false,
  );
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("Select one to see its source.").waitFor();
  await closePage(opened);
});

test("a block is changed with its form: Python has lines there", async () => {
  const opened = await open("library");
  const { page } = opened;
  await page.getByRole("button", { name: "New", exact: true }).click();
  await page.getByLabel("Id").fill("whisper");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  const form = page.getByRole("region", { name: "Definition" });
  await form
    .getByLabel(/^Description/)
    .first()
    .fill("Whispers a text.");
  await form.locator(".cm-content").first().click();
  await page.keyboard.press("ControlOrMeta+End");
  await page.keyboard.type("\n# the end");
  await form.getByRole("tab", { name: "JSON" }).click();
  const source = form.getByRole("textbox", { name: "Definition" });
  assert.match(await source.inputValue(), /Whispers a text\.(.|\n)*\\n# the end"/);
  await form.getByRole("button", { name: "Save" }).click();
  await form.getByText("Version 2").waitFor();
  await form.getByRole("tab", { name: "Form" }).click();
  await assertAccessible(page);
  await closePage(opened);
});

test("a changed definition is not left without asking, and is compared with what someone else saved", async () => {
  const put = (systemPrompt, agentId = "shared") =>
    fetch(`${studio.address}/api/v1/agents/${agentId}`, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ agentId, name: "Shared", description: "d", systemPrompt }),
    });
  for (const id of ["shared", "other"]) assert.ok((await put("one", id)).ok);
  const opened = await open("library?kind=agents&item=shared");
  const { page } = opened;
  await page.getByRole("tab", { name: "JSON" }).click();
  const source = page.getByRole("textbox", { name: "Definition" });
  await source.fill((await source.inputValue()).replace('"one"', '"mine"'));
  for (const name of ["Runs", "other"]) {
    await page.getByRole("link", { name }).first().click();
    const question = page.getByRole("dialog", { name: "Leave without saving?" });
    await question.getByRole("button", { name: "Stay" }).click();
    await question.waitFor({ state: "detached" });
  }
  assert.ok((await put("theirs")).ok);
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: "Your text and the stored version" });
  await dialog.locator("[data-change=removed]", { hasText: "theirs" }).waitFor();
  assert.match(await source.inputValue(), /mine/);
  await dialog.getByRole("button", { name: "Save mine as a new version" }).click();
  await page.getByText("Saved", { exact: true }).waitFor();
  assert.match(await (await fetch(`${studio.address}/api/v1/agents/shared`)).text(), /mine/);
  await page.getByRole("link", { name: "Runs" }).click();
  await page.waitForURL(/\/runs/);
  await opened.context.close();
  assert.deepEqual(
    opened.faults.filter((fault) => !/status of 412/.test(fault)),
    [],
  );
});

test("blocks are found by what they do, and functions by name", async () => {
  const opened = await open("library");
  const { page } = opened;
  await page.getByRole("searchbox").fill("tell the user something");
  const first = page.locator(".library-item").first();
  await first.getByText("notify_push").waitFor();
  await page.getByRole("tab", { name: "Functions" }).click();
  await page.getByRole("searchbox").fill("agent::chat");
  await page.getByRole("link", { name: /agent::chat/ }).click();
  await page.getByRole("heading", { name: "agent::chat" }).waitFor();
  await closePage(opened);
});

test("a function is tried with arguments, and one that only steps call says so", async () => {
  const opened = await open("library?kind=functions&item=notify::push");
  const { page } = opened;
  const trial = page.getByRole("region", { name: "Try it" });
  await trial.getByLabel(/^title/).fill("From the library");
  await trial.getByRole("button", { name: "Run", exact: true }).click();
  await trial.getByText("delivered").waitFor();
  await assertAccessible(page);
  const [notification] = await (await fetch(`${studio.address}/api/v1/notifications`)).json();
  assert.equal(notification.title, "From the library");
  await trial.getByRole("link", { name: "Open run" }).click();
  await page.waitForURL(/\/runs\//);
  await page.goto(`${studio.address}/library?kind=functions&item=human::ask`);
  await page.getByText(/^Steps call this function/).waitFor();
  await closePage(opened);
});

test("an agent is tried with a message, and the conversation continues", async () => {
  await storeDefinition("agents", "talker", { agentId: "talker", name: "Talker", systemPrompt: "You help." });
  const opened = await open("library?kind=agents&item=talker");
  const { page } = opened;
  const trial = page.getByRole("region", { name: "Try it" });
  await trial.getByRole("button", { name: "Run", exact: true }).click();
  await trial.getByLabel("Message").fill("quick: repeat: Good morning");
  await trial.getByRole("button", { name: "Run", exact: true }).click();
  await trial.getByText("Good morning", { exact: true }).last().waitFor();
  await assertAccessible(page);
  await trial.getByRole("link", { name: "Continue in the chat" }).click();
  await page.waitForURL(/\/chat/);
  await page.getByRole("textbox", { name: "Message" }).waitFor();
  await page.getByText("Good morning").first().waitFor();
  await closePage(opened);
});

test("a tool that calls a function is tried, and one that sends a request leads to agents", async () => {
  const parameters = { type: "object", properties: { title: { type: "string" } }, required: ["title"] };
  const record = (name, fields) => ({ toolId: name, type: "function", ...fields });
  await storeDefinition(
    "tools",
    "tell",
    record("tell", { functionId: "notify::push", function: { name: "tell", parameters } }),
  );
  await storeDefinition(
    "tools",
    "order",
    record("order", { internalApiPath: "/order", function: { name: "order", parameters } }),
  );
  const opened = await open("library?kind=tools&item=tell");
  const { page } = opened;
  const trial = page.getByRole("region", { name: "Try it" });
  await trial.getByLabel(/^title/).fill("From a tool");
  await trial.getByRole("button", { name: "Run", exact: true }).click();
  await trial.getByText("delivered").waitFor();
  await page.goto(`${studio.address}/library?kind=tools&item=order`);
  await trial.getByText(/This tool sends a request/).waitFor();
  await assertAccessible(page);
  await closePage(opened);
});

test("a key is created and revoked, and memory is changed", async () => {
  const opened = await open("settings");
  const { page } = opened;
  await page.getByRole("button", { name: "New key" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("ci");
  await dialog.getByRole("button", { name: "Create" }).click();
  await dialog.getByText(/^fl_/).waitFor();
  await dialog.getByRole("button", { name: "Close" }).click();
  await page.getByRole("button", { name: "Revoke" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await page.getByText(/revoked .*never used/).waitFor();

  await page.getByRole("button", { name: "New entry" }).click();
  await page.getByLabel("Key", { exact: true }).fill("city");
  await page.getByLabel("Value as JSON").fill('{"name": "Bonn"}');
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("button", { name: "city" }).click();
  await page.getByLabel("Value as JSON").fill('"Berlin"');
  await page.getByRole("button", { name: "Save" }).click();
  await page.locator(".settings-memory").getByText("Berlin").waitFor();
  const memory = await (await fetch(`${studio.address}/api/v1/memory/local`)).json();
  assert.deepEqual(memory, { city: "Berlin" });
  // What cannot be undone is asked first.
  await page.getByRole("button", { name: "city" }).click();
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByRole("dialog", { name: "Delete city?" }).getByRole("button", { name: "Delete" }).click();
  await page.getByRole("button", { name: "city" }).waitFor({ state: "detached" });
  await closePage(opened);
});
