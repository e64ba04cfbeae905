// The other places in a browser: by keyboard, with keys and behind a prefix.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import {
  closePage,
  openBrowser,
  openPage,
  PROGRAM,
  startProxy,
  startRun,
  startStudio,
  waitForCount,
} from "./studio.mjs";

let studio;
let browser;

before(async () => {
  studio = await startStudio();
  browser = await openBrowser();
  await startRun(studio.address, "support-reply", "The lamp arrived broken.", 30);
});

after(async () => {
  await browser?.close();
  await studio?.close();
});

test("the inbox is worked off by keyboard", async () => {
  const run = await startRun(studio.address, "support-reply", "A question.", 30);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/inbox?item=${run}`);
  await page.getByRole("textbox").waitFor();
  await page.keyboard.type("yes");
  await page.keyboard.press("Control+Enter");
  await page.waitForFunction(() => document.querySelectorAll(".inbox-item").length === 1);
  await closePage(opened);
});

/** Types another text into the editor. */
async function replaceSource(page, text) {
  await page.getByRole("textbox", { name: /Source of/ }).click();
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.keyboard.insertText(text);
}

test("a file is dropped, mended, saved, and restored", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(studio.address);
  const text = JSON.stringify(
    {
      id: "greet",
      name: "Greet",
      steps: [{ name: "hello", functionId: "agent::chat", mode: "sequentia", errorMode: "fail" }],
    },
    null,
    2,
  );
  await page
    .locator("input[type=file]")
    .setInputFiles({ name: "greet.json", mimeType: "application/json", buffer: Buffer.from(text) });
  await page.waitForURL(/workflows\/greet/);
  await page.getByRole("button", { name: /no mode "sequentia"/ }).waitFor();
  await replaceSource(page, text.replace("sequentia", "sequential"));
  await page.getByText("No problems").waitFor();
  await page.keyboard.press("Control+s");
  await page.getByText("Saved", { exact: true }).waitFor();
  await page.getByText("Version 2").waitFor();
  await page.getByRole("button", { name: "Versions" }).click();
  await page.getByRole("button", { name: /^Version 1/ }).click();
  await page.getByRole("button", { name: "Restore into the editor" }).click();
  await page.getByText("Unsaved changes").waitFor();
  await page.getByRole("button", { name: "Discard the changes" }).click();
  await page.getByText("Unsaved changes").waitFor({ state: "detached" });
  assert.equal(await page.getByText(/is in the editor/).count(), 0);
  await closePage(opened);
});

test("two tabs of a browser keep their unsaved changes apart", async () => {
  const text = (prompt) =>
    JSON.stringify({
      id: "tabs",
      name: "Tabs",
      steps: [
        {
          name: "a",
          functionId: "agent::chat",
          mode: "sequential",
          promptTemplate: prompt,
          errorMode: "fail",
        },
      ],
    });
  await fetch(`${studio.address}/api/v1/workflows/tabs`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: text("first"),
  });
  const opened = await openPage(browser, studio.address);
  const one = opened.page;
  const other = await opened.context.newPage();
  for (const page of [one, other]) {
    await page.goto(`${studio.address}/workflows/tabs`);
    await page.getByText("No problems").waitFor();
  }
  await replaceSource(one, text("of one"));
  await replaceSource(other, text("of the other"));
  const kept = () => Object.keys(localStorage).filter((key) => key.startsWith("unsaved ")).length;
  await other.waitForFunction(() => {
    return Object.keys(localStorage).filter((key) => key.startsWith("unsaved ")).length === 2;
  });
  await one.bringToFront();
  await one.keyboard.press("Control+s");
  await one.getByText("Saved", { exact: true }).waitFor();
  assert.equal(await other.evaluate(kept), 1);
  await other.reload();
  await other.getByText(/were not saved/).waitFor();
  await other.getByRole("button", { name: "Restore them" }).click();
  await other.waitForFunction(() =>
    document.querySelector(".cm-content, .editor")?.shadowRoot?.textContent.includes("of the other"),
  );
  await closePage(opened);
});

test("whoever saves second is told that someone else saved", async () => {
  const url = `${studio.address}/api/v1/workflows/shared`;
  const definition = (promptTemplate) => ({
    id: "shared",
    name: "Shared",
    steps: [{ name: "a", functionId: "agent::chat", mode: "sequential", promptTemplate, errorMode: "fail" }],
  });
  const put = (prompt) =>
    fetch(url, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(definition(prompt)),
    });
  await put("one");
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/workflows/shared`);
  await replaceSource(page, JSON.stringify(definition("mine")));
  await put("theirs");
  await page.getByRole("button", { name: /^Save/ }).click();
  await page.getByText(/Someone else saved/).waitFor();
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: "Your text and the stored version" });
  await dialog.locator("[data-change=removed]", { hasText: "theirs" }).waitFor();
  await dialog.locator("[data-change=added]", { hasText: "mine" }).waitFor();
  // My text is still one of the first version.
  const badge = page.locator(".workflow-head .badge", { hasText: "Version" });
  assert.equal(await badge.textContent(), "Version 1");
  await dialog.getByRole("button", { name: "Continue with the stored version" }).click();
  const shows = (text) =>
    page.waitForFunction(
      (wanted) => document.querySelector(".editor")?.shadowRoot?.textContent.includes(wanted),
      text,
    );
  await shows("theirs");
  assert.equal(await badge.textContent(), "Version 2");
  // My text is not lost.
  await page.getByRole("button", { name: "Undo" }).click();
  await shows("mine");
  await page.getByRole("button", { name: /^Save/ }).click();
  await page.getByText("Saved", { exact: true }).waitFor();
  await opened.context.close();
  // The browser reports the refused request.
  assert.deepEqual(
    opened.faults.filter((fault) => !/status of 412/.test(fault)),
    [],
  );
});

test("selecting a step shows its source, and the cursor selects the step", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/workflows/support-reply`);
  await page.locator(".node", { hasText: "draft" }).click();
  await page.waitForURL(/step=%2Fdraft|step=\/draft/);
  await page
    .getByRole("textbox", { name: /Source of/ })
    .getByText("Which language")
    .click();
  await page.waitForURL(/language/);
  await closePage(opened);
});

test("a key is asked for once in a tab, and a revoked key is asked for again", async () => {
  const protectedStudio = await startStudio({
    prepare: (folder) => {
      const flowloom = (...words) =>
        execFileSync(PROGRAM, [...words, "--json"], { cwd: folder, encoding: "utf8" });
      return JSON.parse(flowloom("keys", "create", "--name", "test"));
    },
  });
  const { key, id } = protectedStudio.prepared;
  const opened = await openPage(browser, protectedStudio.address);
  const { page } = opened;
  await page.goto(protectedStudio.address);
  await page.getByRole("textbox", { name: "API key" }).fill(key);
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("heading", { name: "Echo a topic" }).waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "Echo a topic" }).waitFor();
  assert.equal(page.url().includes(key), false);
  execFileSync(PROGRAM, ["keys", "revoke", id], { cwd: protectedStudio.folder, stdio: "ignore" });
  await page.getByRole("dialog", { name: "Enter an API key" }).waitFor({ timeout: 20_000 });
  await opened.context.close();
  await protectedStudio.close();
  assert.deepEqual(
    opened.faults.filter((fault) => !/status of 401/.test(fault)),
    [],
  );
});

test("what waits is above the workflows, and a small screen has the search and the runs first", async () => {
  await startRun(studio.address, "support-reply", "A question.", 30);
  const opened = await openPage(browser, studio.address, { viewport: { width: 390, height: 844 } });
  const { page } = opened;
  await page.goto(studio.address);
  const topOf = async (locator) => (await locator.first().boundingBox()).y;
  await page.locator(".card").first().waitFor();
  await page.getByRole("heading", { name: "Waiting for you" }).waitFor();
  const waiting = await topOf(page.getByRole("heading", { name: "Waiting for you" }));
  assert.ok(waiting < (await topOf(page.locator(".card"))));
  await page.goto(`${studio.address}/runs`);
  await page.locator(".chart").first().waitFor();
  await page.getByRole("table").filter({ hasText: "Started" }).waitFor();
  assert.ok((await topOf(page.locator(".runs-table"))) < (await topOf(page.locator(".chart"))));
  await page.getByRole("button", { name: "Search" }).click();
  await page.getByRole("combobox", { name: /Search/ }).waitFor();
  await closePage(opened);
});

test("it works behind a path prefix", async (context) => {
  const proxy = await startProxy("/flows");
  context.after(() => proxy.close());
  const behind = await startStudio({ serveArguments: ["--public-url", `${proxy.address}/flows`] });
  proxy.forwardTo(behind.address);
  const opened = await openPage(browser, proxy.address);
  const { page } = opened;
  await page.goto(`${proxy.address}/flows/runs`);
  await page.getByRole("heading", { name: "Runs" }).first().waitFor();
  await page.getByRole("link", { name: "Home" }).click();
  await page.getByRole("link", { name: "Echo a topic" }).click();
  await page.waitForURL(`${proxy.address}/flows/workflows/echo`);
  await page.reload();
  await page.getByRole("textbox", { name: /Source of/ }).waitFor();
  await closePage(opened);
  await behind.close();
});

test("files have names that never change, tags, and are sent compressed", async () => {
  const page = await fetch(studio.address);
  assert.match(page.headers.get("content-security-policy"), /^default-src 'self';/);
  const html = await page.text();
  assert.equal(/<script(?![^>]*src=)/.test(html), false);
  const script = /src="\.\/(assets\/[^"]+\.js)"/.exec(html)[1];
  const file = await fetch(`${studio.address}/${script}`, { headers: { "accept-encoding": "br" } });
  assert.equal(file.headers.get("content-encoding"), "br");
  assert.match(file.headers.get("cache-control"), /immutable/);
  const again = await fetch(`${studio.address}/${script}`, {
    headers: { "accept-encoding": "br", "if-none-match": file.headers.get("etag") },
  });
  assert.equal(again.status, 304);
});

const jsonFile = (name, text) => ({ name, mimeType: "application/json", buffer: Buffer.from(text) });
const stepList = (id, rest = "]}") =>
  `{"id": "${id}", "name": "${id}", "steps": [{"name": "a", "functionId": "agent::chat", "mode": "sequential", "errorMode": "fail"}${rest}`;

test("two definitions become two workflows, a broken one a draft, and one of n8n is named", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  page.setDefaultTimeout(10_000);
  await page.goto(studio.address);
  const add = (files) => page.locator("input[type=file]").setInputFiles(files);
  await add([
    jsonFile("first-of-two.json", stepList("first-of-two")),
    jsonFile("other.json", stepList("other")),
  ]);
  await page.getByText("Added 2 workflows: ").waitFor();
  for (const id of ["first-of-two", "other"]) {
    const source = await (await fetch(`${studio.address}/api/v1/workflows/${id}/source`)).json();
    assert.equal(Object.keys(source.files).length, 1, id);
  }
  const n8n = {
    name: "N",
    nodes: [{ id: "1", name: "Start", type: "n8n-nodes-base.manualTrigger" }],
    connections: {},
  };
  await add(jsonFile("n8n.json", JSON.stringify(n8n)));
  await page.getByText(/workflow of n8n, which cannot be imported/).waitFor();
  await add(jsonFile("cut.json", stepList("cut", "")));
  await page.waitForURL(/workflows\/cut/);
  await page
    .getByText(/the text ends here/)
    .first()
    .waitFor();
  await opened.context.close();
  assert.deepEqual(
    opened.faults.filter((fault) => !/status of 422/.test(fault)),
    [],
  );
});

test("a workflow opens in the builder, or in the view that was chosen last, which is in the address", async () => {
  const opened = await openPage(browser, studio.address, { view: null });
  const { page } = opened;
  await page.goto(`${studio.address}/workflows/echo`);
  const isSelected = (name) => page.getByRole("tab", { name, selected: true, exact: true }).first().waitFor();
  await isSelected("Build");
  await page.getByRole("tab", { name: "Source" }).first().click();
  await page.waitForURL(/view=source/);
  await isSelected("Source");
  await page.goto(`${studio.address}/workflows/broken`);
  await isSelected("Source");
  await page.goto(`${studio.address}/workflows/broken?view=cost`);
  await isSelected("Cost");
  await closePage(opened);
});

test("the inbox says what each item is about, and an approval shows its call", async () => {
  await startRun(studio.address, "support-reply", "My parcel is lost.", 30);
  const approval = await startRun(studio.address, "clerk", { message: "Please echo tea" }, 30);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/inbox?item=${approval}`);
  await page.locator(".inbox-item", { hasText: "My parcel is lost." }).waitFor();
  const detail = page.locator(".inbox-open");
  await detail.getByRole("region", { name: "Inputs" }).getByText("Please echo tea").waitFor();
  await detail.getByText("Allow echo_a_topic?").waitFor();
  await detail.getByText("Writes one sentence about a topic").waitFor();
  const call = detail.getByRole("region", { name: "Arguments" });
  assert.deepEqual(await call.locator("dt, dd").allTextContents(), ["topic", "tea"]);
  await call.getByRole("button", { name: "JSON" }).click();
  await call.getByText('"topic": "tea"').waitFor();
  await page.goto(`${studio.address}/runs`);
  await page.getByRole("cell", { name: "Please echo tea", exact: true }).first().waitFor();
  await closePage(opened);
});

test("a small screen shows the list of the inbox, then an item, and leads back", async () => {
  const run = await startRun(studio.address, "support-reply", "The chair wobbles.", 30);
  const small = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };
  const opened = await openPage(browser, studio.address, small);
  const { page } = opened;
  await page.goto(`${studio.address}/inbox`);
  const item = page.locator(".inbox-item", { hasText: "The chair wobbles." });
  await item.waitFor();
  assert.equal(await page.locator(".inbox-open").isVisible(), false);
  await item.click();
  await page.waitForURL(new RegExp(`item=${run}`));
  await page.locator(".inbox-open textarea").waitFor();
  assert.equal(await item.isVisible(), false);
  // A keyboard would cover what is asked.
  assert.equal(await page.locator("textarea:focus").count(), 0);
  await page.getByRole("link", { name: "Inbox", exact: true }).first().click();
  await item.waitFor();
  await closePage(opened);
});

test("problems are marked in the list and in the graph, and fold into one line", async () => {
  const step = { functionId: "agent::chat", mode: "sequential", errorMode: "fail" };
  const steps = [
    { ...step, name: "first", promptTemplate: "One" },
    { ...step, name: "second", promptTemplate: "{{missing}} {{gone}}" },
  ];
  await fetch(`${studio.address}/api/v1/workflows/marked`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ id: "marked", name: "Marked", steps }),
  });
  const opened = await openPage(browser, studio.address, { view: "build" });
  const { page } = opened;
  await page.goto(`${studio.address}/workflows/marked`);
  for (const place of [".part", ".node"]) {
    await page.locator(place, { hasText: "second" }).getByText("2 problems").waitFor();
    assert.equal(await page.locator(place, { hasText: "first" }).getByText("problem").count(), 0);
  }
  const line = page.locator(".problems-fold");
  assert.equal(await line.getByRole("button", { name: /missing/ }).isVisible(), false);
  await line.locator("summary").click();
  await line.getByRole("button", { name: /missing/ }).waitFor();
  // The palette begins with what ran lately.
  await page.keyboard.press("Control+k");
  const first = page.getByRole("option").first();
  await first.getByText("workflow", { exact: true }).waitFor();
  await closePage(opened);
});

test("the table of workflows is sorted by the figure that a person chooses", async () => {
  await startRun(studio.address, "broken", "Ada", 30);
  for (let at = 0; at < 3; at += 1) await startRun(studio.address, "echo", { topic: "tea" }, 30);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/runs`);
  await page.getByText("By workflow", { exact: false }).first().click();
  const table = page.locator(".charts-tables table").first();
  const failed = table.getByRole("columnheader", { name: "Failed" });
  assert.equal(await failed.getAttribute("aria-sort"), null);
  await failed.getByRole("button").click();
  assert.equal(await failed.getAttribute("aria-sort"), "descending");
  await table.locator("tbody tr").first().getByText("Broken on purpose").waitFor();
  await closePage(opened);
});

test("the filters apply to the charts, and the whole row leads to the run", async () => {
  await startRun(studio.address, "broken", "Ada", 30);
  await startRun(studio.address, "echo", { topic: "tea" }, 30);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/runs?status=failed`);
  const chart = page.locator(".chart").filter({ has: page.getByRole("heading", { name: "Runs" }) });
  await chart.waitFor();
  await page.waitForFunction(() => document.querySelectorAll(".chart-legend .chart-end").length > 0);
  const all = await chart.locator("header .number").first().textContent();
  assert.deepEqual(await chart.locator(".chart-end").allTextContents(), [`${all} failed`]);
  await page.getByText("By workflow", { exact: false }).first().click();
  const rows = page.locator(".charts-tables table").first().locator("tbody tr");
  await waitForCount(rows, 1);
  await page.goto(`${studio.address}/runs?status=waiting`);
  await chart.locator(".chart-end").first().waitFor();
  assert.equal(await page.locator(".chart").filter({ hasText: "95th percentile" }).count(), 0);
  await page.goto(`${studio.address}/runs?status=failed`);
  await page.getByRole("cell", { name: "Broken on purpose" }).first().getByRole("link").waitFor();
  await page
    .locator(".runs-table")
    .getByRole("cell", { name: "API or studio", exact: true })
    .first()
    .click({ force: true });
  await page.waitForURL(/\/runs\/[0-9a-f]/);
  await closePage(opened);
});
