// The library and the settings in a browser: blocks are found, created, changed, tried and deleted; keys and memory.
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
  const source = page.getByRole("textbox", { name: "Definition" });
  const before = await source.inputValue();
  await source.fill(before.replace('inputs[\\"text\\"]}', 'inputs[\\"text\\"].upper()}'));
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Version 2").waitFor();
  await page.getByLabel(/^text/).fill("hello");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText("HELLO", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Version 1" }).click();
  await page.waitForFunction(() => !document.querySelector(".library-source").value.includes("upper"));
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("Select one to see its source.").waitFor();
  await closePage(opened);
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
  await closePage(opened);
});
