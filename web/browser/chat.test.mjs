// Conversations in a browser: who speaks, calls and approvals, editing, files, and what a hostile model answers.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { closePage, openBrowser, openPage, startStudio } from "./studio.mjs";

let studio;
let browser;

before(async () => {
  studio = await startStudio({ pauseMs: 20 });
  browser = await openBrowser();
});

after(async () => {
  await browser?.close();
  await studio?.close();
});

async function openChat(partner, options) {
  const opened = await openPage(browser, studio.address, options);
  await opened.page.goto(`${studio.address}/chat`);
  await opened.page.getByRole("button", { name: `New conversation: ${partner}` }).click();
  const say = async (text) => {
    await opened.page.getByRole("textbox", { name: "Message" }).fill(text);
    await opened.page.keyboard.press("Enter");
  };
  return { ...opened, say };
}

const ANSWER = "The sea is calm today, and the light is soft.";
const ORDER_ANSWER = "Order 4711 has left our warehouse. It should reach you tomorrow.";

test("agents of a graph hand over, call a tool, and stop for a person", async () => {
  const opened = await openChat("Help desk");
  const { page, say } = opened;
  await say("Where is order 4711?");
  await page.getByText("Triage hands over to Orders").waitFor();
  await page.getByRole("button", { name: /order_status/ }).click();
  await page.getByText(/on its way/).waitFor();
  await page.getByRole("heading", { name: "Orders", exact: true }).waitFor();
  await page.getByRole("button", { name: "Try again" }).waitFor();
  await say("Let me speak to a person");
  await page.getByText("A person is needed here").waitFor();
  await say("We call you back.");
  await page.getByRole("log").getByText("We call you back.").waitFor();
  await page.getByText(ORDER_ANSWER).waitFor();
  await page.getByText(ANSWER).waitFor();
  await page.getByRole("link", { name: "Run", exact: true }).first().click();
  await page.getByRole("tree").waitFor();
  await closePage(opened);
});

test("a call is approved where it is asked for", async () => {
  const opened = await openChat("Clerk");
  const { page, say } = opened;
  await say("Please echo tea");
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByText(ANSWER).waitFor();
  await page.getByRole("link", { name: "Please echo tea" }).waitFor();
  await closePage(opened);
});

test("a message that was not sent is there again, with its files", async () => {
  const opened = await openChat("Help desk");
  const { page, context, say } = opened;
  const box = page.getByRole("textbox", { name: "Message" });
  await context.route("**/api/v1/threads/**", (route) =>
    route.request().method() === "POST" ? route.abort() : route.continue(),
  );
  await page
    .locator(".chat-composer input[type=file]")
    .setInputFiles({ name: "note.txt", mimeType: "text/plain", buffer: Buffer.from("a note") });
  await page.getByText("note.txt").waitFor();
  await say("repeat: once more");
  await page.getByRole("alert").waitFor();
  assert.equal(await box.inputValue(), "repeat: once more");
  await page.getByText("note.txt").waitFor();
  // It is also there after another conversation was shown.
  await page.getByRole("button", { name: "Clerk", exact: true }).click();
  await page.getByRole("heading", { name: "Clerk" }).nth(1).waitFor();
  assert.equal(await box.inputValue(), "");
  await page.goBack();
  await page.waitForFunction(() => document.querySelector("textarea")?.value === "repeat: once more");
  await context.unroute("**/api/v1/threads/**");
  await box.press("Enter");
  await page.getByRole("log").getByText("once more").first().waitFor();
  assert.equal(await box.inputValue(), "");
  await context.close();
  assert.deepEqual(
    opened.faults.filter((fault) => !/Failed to load resource/.test(fault)),
    [],
  );
});

test("a message that has to wait for an approval is not lost", async () => {
  const opened = await openChat("Clerk");
  const { page, context, say } = opened;
  const box = page.getByRole("textbox", { name: "Message" });
  await say("Please echo tea");
  await page.getByRole("button", { name: "Approve" }).waitFor();
  await say("repeat: what is this?");
  await page.getByRole("alert").waitFor();
  assert.equal(await box.inputValue(), "repeat: what is this?");
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByText(ANSWER).waitFor();
  await box.press("Enter");
  await page.getByRole("log").getByText("repeat: what is this?", { exact: true }).waitFor();
  assert.equal(await box.inputValue(), "");
  await context.close();
});

test("a message is edited, and the conversation continues from there", async () => {
  const opened = await openChat("Help desk");
  const { page, say } = opened;
  await say("repeat: first");
  await page.getByText("first", { exact: true }).waitFor();
  await say("repeat: second");
  await page.getByText("second", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Edit and continue from here" }).first().click();
  await say("repeat: third");
  await page.getByText("third", { exact: true }).waitFor();
  await page.waitForFunction(() => document.querySelectorAll(".chat-replaced").length === 2);
  const [, thread] = /thread=([^&]+)/.exec(page.url());
  const url = `${studio.address}/api/v1/threads/helpdesk/${thread}`;
  const { messages } = await (await fetch(url)).json();
  assert.deepEqual(
    messages.map((message) => message.content),
    ["repeat: third", "third"],
  );
  await closePage(opened);
});

test("a picture is sent with a message", async () => {
  const opened = await openChat("Help desk");
  const { page, say } = opened;
  const pixel =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  await page
    .locator(".chat-composer input[type=file]")
    .setInputFiles({ name: "pixel.png", mimeType: "image/png", buffer: Buffer.from(pixel, "base64") });
  await page.getByText("pixel.png").waitFor();
  await say("repeat: what is this?");
  await page.getByRole("img", { name: "pixel.png" }).waitFor();
  await page.getByText("what is this? [image_url]").waitFor();
  await closePage(opened);
});

test("a running answer is stopped", async () => {
  const opened = await openChat("Help desk");
  const { page, say } = opened;
  await say(`repeat: ${"slow ".repeat(2000)}`);
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByText("Stopped", { exact: true }).waitFor();
  assert.equal(await page.locator(".chat-log").getByText("FL1041").count(), 0);
  await say("repeat: after");
  await page.getByText("after", { exact: true }).waitFor();
  await closePage(opened);
});

test("what a model says stays text", async () => {
  const opened = await openChat("Help desk");
  const { page, say } = opened;
  await say('repeat: <img src=x onerror="document.title=1"> <script>document.title=2</script> **bold**');
  await page.locator(".markdown strong", { hasText: "bold" }).waitFor();
  assert.equal(await page.locator(".chat-log img, .chat-log script").count(), 0);
  assert.notEqual(await page.title(), "1");
  await closePage(opened);
});

test("a conversation fits a screen of 390 px", async () => {
  const opened = await openChat("Help desk", { viewport: { width: 390, height: 844 } });
  const { page, say } = opened;
  await say("Where is order 4711?");
  await page.getByText(ORDER_ANSWER).waitFor();
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390);
  await page.getByRole("link", { name: "All conversations" }).click();
  await page.getByRole("heading", { name: "Chat" }).waitFor();
  await closePage(opened);
});

test("an approval is given in words, and the transcript says so", async () => {
  const opened = await openChat("Clerk");
  const { page, say } = opened;
  page.setDefaultTimeout(15_000);
  await say("Please echo tea in words");
  await page.getByRole("button", { name: "Approve" }).waitFor();
  await page.getByPlaceholder("Use the buttons above, or write yes or no").waitFor();
  await say("yes, but later");
  await page.getByText("answer yes or no, and nothing else").waitFor();
  await page.getByRole("textbox", { name: "Message" }).fill("");
  await say("Yes, please.");
  await page.getByText("Approved", { exact: true }).waitFor();
  await page.getByText(ANSWER).waitFor();
  await opened.context.close();
  assert.deepEqual(
    opened.faults.filter((fault) => !/status of 4\d\d/.test(fault)),
    [],
  );
});

test("a file that cannot be read is refused when it is chosen", async () => {
  const opened = await openChat("Help desk");
  const { page } = opened;
  const choose = (name, mimeType, size) =>
    page
      .locator(".chat-composer input[type=file]")
      .setInputFiles({ name, mimeType, buffer: Buffer.alloc(size, "a") });
  await choose("report.pdf", "application/pdf", 10);
  await page.getByText(/report.pdf cannot be attached/).waitFor();
  assert.equal(await page.locator(".chat-files").count(), 0);
  await choose("long.txt", "text/plain", 300_000);
  await page.getByText(/long.txt has .* of text/).waitFor();
  await page.locator(".chat-files").getByText("long.txt").waitFor();
  await closePage(opened);
});
