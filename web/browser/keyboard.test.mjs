// A workflow is built, saved and run with the keyboard only: no pointer, and no field is filled by script.
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

/** What has the focus: its role and the name that a screen reader says. */
function readFocus(page) {
  return page.evaluate(() => {
    let element = document.activeElement;
    while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
    if (!element || element === document.body) return "";
    const byId = element.getAttribute("aria-labelledby");
    const label =
      element.getAttribute("aria-label") ??
      (byId && document.getElementById(byId)?.textContent) ??
      element.labels?.[0]?.textContent ??
      element.textContent;
    return label.trim().replaceAll(/\s+/g, " ");
  });
}

const MAX_TABS = 120;

/** Presses Tab until something with this name has the focus. */
async function tabTo(page, name, key = "Tab") {
  const seen = [];
  for (let tabs = 0; tabs < MAX_TABS; tabs++) {
    const focused = await readFocus(page);
    seen.push(focused);
    if (name instanceof RegExp ? name.test(focused) : focused === name) return;
    await page.keyboard.press(key);
  }
  assert.fail(`${name} was not reached; what was: ${[...new Set(seen)].join(" · ")}`);
}

/** Waits until a change of the definition was stored in its text. */
async function changing(page, action) {
  const answered = page.waitForResponse((response) => response.url().endsWith("/definitions/edit"));
  await action();
  assert.equal((await answered).status(), 200);
}

test("a step list is built, saved and run with the keyboard only", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  page.setDefaultTimeout(10_000);
  const { keyboard } = page;
  await page.goto(studio.address);
  await page.getByRole("heading", { name: "Echo a topic" }).waitFor();
  await tabTo(page, "New workflow");
  await keyboard.press("Enter");
  await page.waitForURL(/\/new/);
  await page.getByLabel("Name of the new workflow").waitFor();
  await tabTo(page, /^Step list/);
  await keyboard.press("Space");
  await tabTo(page, /^Name of the new workflow/);
  await keyboard.type("by-keyboard");
  await keyboard.press("Enter");
  await page.getByRole("button", { name: /^Definition/ }).waitFor();

  await tabTo(page, /^answer/);
  await keyboard.press("Enter");
  await tabTo(page, /^Prompt template/);
  await keyboard.press("Control+a");
  await changing(page, () => keyboard.type("quick: repeat: one {{input}}"));
  await tabTo(page, "Add step", "Shift+Tab");
  await keyboard.press("Enter");
  await page.getByRole("searchbox", { name: "Search kinds" }).waitFor();
  await keyboard.type("sequential");
  await changing(page, () => keyboard.press("Enter"));
  await page.getByRole("region", { name: "Form" }).getByRole("heading", { name: "answer_2" }).waitFor();
  await tabTo(page, /^Prompt template/);
  await keyboard.press("Control+a");
  await changing(page, () => keyboard.type("quick: repeat: two {{input}}"));
  // The second step is moved to the front, and back.
  await tabTo(page, /^answer_2/, "Shift+Tab");
  await changing(page, () => keyboard.press("Alt+ArrowUp"));
  await page.locator(".part").nth(1).getByText("answer_2").waitFor();
  await changing(page, () => keyboard.press("Alt+ArrowDown"));
  await page.locator(".part").nth(2).getByText("answer_2").waitFor();

  await keyboard.press("Control+s");
  await page.getByText("Saved", { exact: true }).first().waitFor();
  await keyboard.press("Control+Enter");
  await page.getByRole("dialog").waitFor();
  await tabTo(page, /^input/);
  await keyboard.type("three");
  await keyboard.press("Control+Enter");
  await page.waitForURL(/\/runs\//);
  await page.locator(".run-header").getByText("Succeeded").waitFor();
  const run = new URL(page.url()).pathname.split("/").at(-1);
  const { output } = await (await fetch(`${studio.address}/api/v1/runs/${run}`)).json();
  assert.equal(output, "two one three");
  await opened.context.close();
  assert.deepEqual(opened.faults, []);
});
