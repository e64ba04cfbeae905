// What goes wrong while the page is open: a key is revoked during a stream, the server dies while the viewer looks at the
// past, and a model answers with a hundred hostile texts.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { chooseAction, closePage, openBrowser, openPage, PROGRAM, startRun, startStudio } from "./studio.mjs";

let browser;

before(async () => {
  browser = await openBrowser();
});

after(async () => {
  await browser?.close();
});

/** The number of events that a run has stored. */
async function countStored(address, run, headers = {}) {
  const response = await fetch(`${address}/api/v1/runs/${run}/events?from=0`, { headers });
  return (await response.text()).match(/^id: ?\d+/gm).length;
}

test("a key is revoked during a stream, and with another key the page goes on without a gap", async () => {
  const studio = await startStudio({
    pauseMs: 60,
    prepare: (folder) => {
      const create = (name) =>
        JSON.parse(
          execFileSync(PROGRAM, ["keys", "create", "--name", name, "--json"], {
            cwd: folder,
            encoding: "utf8",
          }),
        );
      return { first: create("first"), second: create("second") };
    },
  });
  const { first, second } = studio.prepared;
  const keyed = { authorization: `Bearer ${second.key}` };
  const started = await fetch(`${studio.address}/api/v1/runs`, {
    method: "POST",
    headers: { ...keyed, "content-type": "application/json" },
    body: JSON.stringify({ workflow: "support-reply", inputs: "The lamp is broken." }),
  });
  const { run_id: run } = await started.json();
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  const dialog = page.getByRole("dialog", { name: "Enter an API key" });
  const enter = async (key) => {
    await page.getByRole("textbox", { name: "API key" }).fill(key);
    await page.getByRole("button", { name: "Continue" }).click();
  };
  await page.goto(`${studio.address}/runs/${run}`);
  await enter(first.key);
  await page.getByRole("treeitem").first().waitFor();
  execFileSync(PROGRAM, ["keys", "revoke", first.id], { cwd: studio.folder, stdio: "ignore" });
  await dialog.waitFor({ timeout: 30_000 });
  await enter(second.key);
  await page.locator(".run-header").getByText("Waiting").waitFor({ timeout: 30_000 });
  await page.keyboard.press("End");
  const stored = await countStored(studio.address, run, keyed);
  assert.equal(await page.getByTestId("position").textContent(), `${stored} / ${stored}`);
  await opened.context.close();
  await studio.close();
  assert.deepEqual(
    opened.faults.filter((fault) => !/status of 401/.test(fault)),
    [],
  );
});

test("over plain http to another machine, runs are started and texts are copied", async () => {
  const studio = await startStudio();
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  // What a browser leaves out where the connection is not secure.
  await page.addInitScript(() => {
    delete Crypto.prototype.randomUUID;
    Object.defineProperty(navigator, "clipboard", { value: undefined });
  });
  await page.goto(`${studio.address}/workflows/echo`);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox").first().fill("tea");
  await dialog.getByRole("button", { name: "Start" }).click();
  await page.waitForURL(/\/runs\//);
  await chooseAction(page, "Copy link");
  await page.getByText("Copied", { exact: true }).waitFor();
  await closePage(opened);
  await studio.close();
});

test("the server dies and comes back while the scrubber shows the past", async () => {
  const studio = await startStudio({ pauseMs: 30 });
  const run = await startRun(studio.address, "support-reply", "The lamp is broken. Once more.");
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  await page.goto(`${studio.address}/runs/${run}`);
  await page.getByRole("treeitem", { name: /^draft/ }).waitFor();
  await page.keyboard.press("Home");
  for (let at = 0; at < 5; at++) await page.keyboard.press("ArrowRight");
  const describe = () =>
    page.getByRole("tree").evaluate((tree) => tree.textContent.replaceAll(/[\d.]+ m?s/g, ""));
  const position = async () => (await page.getByTestId("position").textContent()).split(" / ")[0];
  assert.equal(await position(), "6");
  const seen = await describe();
  await studio.restart();
  // The run goes on at the server, and the page stays where the viewer put it.
  await page.waitForFunction(
    (before) =>
      Number(document.querySelector("[data-testid=position]")?.textContent.split(" / ")[1]) > before,
    20,
    { timeout: 30_000 },
  );
  assert.equal(await position(), "6");
  assert.equal(await describe(), seen);
  await page.keyboard.press("End");
  await page.locator(".run-header").getByText("Waiting").waitFor({ timeout: 30_000 });
  const stored = await countStored(studio.address, run);
  assert.equal(await page.getByTestId("position").textContent(), `${stored} / ${stored}`);
  await opened.context.close();
  await studio.close();
  assert.deepEqual(
    opened.faults.filter((fault) => !/ERR_|Failed to load/.test(fault)),
    [],
  );
});

test("a hundred hostile outputs stay text", async () => {
  const studio = await startStudio();
  const texts = JSON.parse(await readFile(new URL("hostile-outputs.json", import.meta.url), "utf8"));
  const outputs = [...texts, ...buildLarge()];
  assert.ok(outputs.length >= 100, `${outputs.length} outputs`);
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  let dialogs = 0;
  page.on("dialog", (dialog) => {
    dialogs++;
    void dialog.dismiss();
  });
  const runs = [];
  for (const output of outputs) runs.push(await startRun(studio.address, "hostile", output, 30));
  await page.goto(`${studio.address}/runs`);
  for (const run of runs) {
    // Within the page, as its links do: a hundred full loads would take minutes.
    await page.evaluate((address) => {
      history.pushState({}, "", address);
      dispatchEvent(new PopStateEvent("popstate"));
    }, `${studio.address}/runs/${run}?step=/repeat`);
    const output = page.getByRole("region", { name: "Output" });
    await page.waitForFunction((id) => location.pathname.endsWith(id), run);
    await output.waitFor();
    for (const view of ["Formatted", "Text"]) {
      const button = output.getByRole("button", { name: view });
      if ((await button.count()) > 0) await button.click();
      const found = await page.locator(".details").evaluate((details) => ({
        markup: details.querySelectorAll(
          ".value-body :is(img, script, iframe, object, embed, form, style, link)",
        ).length,
        links: [...details.querySelectorAll(".value-body a")].map((link) => link.protocol),
        handlers: [...details.querySelectorAll("*")].filter((one) =>
          one.getAttributeNames().some((name) => name.startsWith("on")),
        ).length,
      }));
      assert.equal(found.markup + found.handlers, 0, await output.textContent());
      assert.deepEqual(
        found.links.filter((protocol) => !/^https?:$/.test(protocol)),
        [],
      );
    }
  }
  assert.equal(dialogs, 0);
  assert.equal(await page.evaluate(() => window.hit ?? 0), 0);
  await opened.context.close();
  await studio.close();
  assert.deepEqual(opened.faults, []);
});

/** Outputs that are too large or too deep to write down. */
function buildLarge() {
  return [
    "x".repeat(200_000),
    "# heading\n".repeat(2000),
    "[".repeat(20_000),
    "[".repeat(5_000) + "]".repeat(5_000),
    JSON.stringify({ list: Array.from({ length: 20_000 }, (_, at) => at) }),
    "* ".repeat(5_000),
    "> ".repeat(5_000),
    "**".repeat(20_000),
    "`".repeat(20_001),
    "[a](".repeat(5_000),
    "\u202E".repeat(10_000),
    "a\u0301".repeat(50_000),
    `| ${"a | ".repeat(500)}\n| ${"- | ".repeat(500)}\n| ${"<b> | ".repeat(500)}`,
    "\n".repeat(20_000),
  ];
}
