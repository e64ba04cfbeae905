// Accessibility and width of every place, with its tabs, its dialogs and the palette, in both themes.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  chooseStepAction,
  closePage,
  findViolations,
  openBrowser,
  openPage,
  startRun,
  startStudio,
} from "./studio.mjs";

let studio;
let browser;
let waiting;
let failed;

before(async () => {
  studio = await startStudio();
  browser = await openBrowser();
  failed = await startRun(studio.address, "broken", "Ada", 30);
  waiting = await startRun(studio.address, "support-reply", "The lamp arrived broken.", 30);
  const definition = {
    id: "stored",
    name: "Stored",
    steps: [
      { name: "a", functionId: "agent::chat", mode: "sequential", errorMode: "fail", promptTemplate: "hi" },
    ],
  };
  for (const description of ["one", "two"]) {
    await fetch(`${studio.address}/api/v1/workflows/stored`, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ ...definition, description }),
    });
  }
});

after(async () => {
  await browser?.close();
  await studio?.close();
});

const press = (role, name) => (page) => page.getByRole(role, { name, exact: true }).first().click();
const STEP_TABS = ["output", "request", "attempts", "variables", "events"];

/** Each place: its address, and what is done before it is looked at. */
const listPlaces = () => [
  { path: "" },
  { path: "runs" },
  { path: `runs/${waiting}` },
  { path: `runs/${waiting}?tab=variables` },
  ...STEP_TABS.map((tab) => ({ path: `runs/${waiting}?step=/language&tab=${tab}` })),
  ...STEP_TABS.map((tab) => ({ path: `runs/${failed}?step=/second&tab=${tab}` })),
  { path: `runs/${waiting}?at=12&step=/draft` },
  { path: `runs/${waiting}?step=/draft`, prepare: (page) => chooseStepAction(page, "Fork from here") },
  { path: `runs/${waiting}`, prepare: press("button", "Fork with other inputs") },
  { path: `runs/${waiting}?step=/draft`, prepare: press("button", "Run this step") },
  { path: `runs/${waiting}`, prepare: press("button", "Cancel run") },
  { path: `runs/${waiting}`, prepare: press("button", "Actions") },
  { path: "runs/00000000-0000-7000-8000-000000000000", isMissing: true },
  { path: "runs/compare" },
  { path: `runs/compare?right=${waiting}` },
  { path: `runs/compare?left=${failed}&right=${waiting}` },
  { path: "compare" },
  { path: "compare?a=stored@1&b=stored" },
  { path: "inbox" },
  { path: "chat" },
  { path: "create" },
  { path: "new" },
  { path: "library?kind=blocks&item=filter" },
  { path: "library?kind=functions&item=agent::chat" },
  { path: "tests" },
  { path: "settings" },
  { path: "workflows/support-reply" },
  { path: "workflows/support-reply?step=/draft", prepare: press("tab", "Build") },
  { path: "workflows/support-reply", prepare: press("tab", "Cost") },
  ...["Versions", "Delete the workflow", "Use it from…", "Run"].map((name) => ({
    path: "workflows/stored",
    prepare: press("button", name),
  })),
  { path: "", prepare: (page) => page.keyboard.press("?") },
  { path: "", prepare: (page) => page.keyboard.press("Control+k") },
];

test("axe finds nothing on any place in either theme", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  page.setDefaultTimeout(10_000);
  const found = [];
  for (const { path, prepare } of listPlaces()) {
    await page.goto(`${studio.address}/${path}`);
    const isShown = page
      .locator("h1:visible, h2:visible")
      .first()
      .waitFor()
      .then(() => prepare?.(page));
    await isShown.catch((error) => assert.fail(`${path}: ${error.message}`));
    await page.waitForTimeout(300);
    for (const violation of await findViolations(page)) {
      found.push(`${path} ${prepare ? "(prepared)" : ""}: ${violation}`);
    }
  }
  assert.deepEqual(found, []);
  await opened.context.close();
  // The browser reports the run that does not exist.
  assert.deepEqual(
    opened.faults.filter((fault) => !/status of 404/.test(fault)),
    [],
  );
});

test("no place is wider than a screen of 390 px", async () => {
  const opened = await openPage(browser, studio.address, { viewport: { width: 390, height: 844 } });
  const { page } = opened;
  const isNarrow = ({ path, prepare, isMissing }) =>
    !prepare && !isMissing && !/compare|workflows/.test(path);
  for (const { path } of listPlaces().filter(isNarrow)) {
    await page.goto(`${studio.address}/${path}`);
    await page.locator("h1:visible, h2:visible").first().waitFor();
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(width <= 390, `${path} is ${width} px wide`);
  }
  await closePage(opened);
});

test("every place has a title of its own", async () => {
  const opened = await openPage(browser, studio.address);
  const { page } = opened;
  const titles = new Set();
  const places = ["", "runs", "inbox", "chat", "create", "new", "library", "tests", "settings", "compare"];
  for (const path of [...places, `runs/${waiting}`, "workflows/stored", "runs/compare"]) {
    await page.goto(`${studio.address}/${path}`);
    await page.waitForFunction(() => document.title !== "" && document.title !== "Flowloom");
    titles.add(await page.title());
  }
  assert.equal(titles.size, places.length + 3, [...titles].join(", "));
  await closePage(opened);
});
