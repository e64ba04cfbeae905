// Costs before a run, steps that run alone, families of forks, and versions compared by what they mean.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { AxeBuilder } from "@axe-core/playwright";
import { openBrowser, openPage, startRun, startStudio, waitForCount } from "./studio.mjs";

/** A pipeline of the examples. */
const EXAMPLE = new URL("../../examples/pipeline/", import.meta.url);

let studio;
let browser;
let waiting;

before(async () => {
  studio = await startStudio();
  browser = await openBrowser();
  waiting = await startRun(studio.address, "support-reply", "The lamp arrived broken.", 30);
});

after(async () => {
  await browser?.close();
  await studio?.close();
});

async function open(path, options) {
  const opened = await openPage(browser, studio.address, options);
  opened.page.setDefaultTimeout(10_000);
  await opened.page.goto(`${studio.address}/${path}`);
  return opened;
}

async function close({ page, context, faults }) {
  const { violations } = await new AxeBuilder({ page }).analyze();
  await context.close();
  assert.deepEqual(
    violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`),
    [],
  );
  assert.deepEqual(faults, []);
}

const post = async (path, body) => {
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${studio.address}${path}`, {
    method: "POST",
    headers,
    body: JSON.stringify(body),
  });
  assert.ok(response.ok, `${path}: ${await response.clone().text()}`);
  return response.json();
};

test("a workflow shows what it can cost, and a click shows the step without a bound", async () => {
  const opened = await open("workflows/echo");
  const { page } = opened;
  await page.getByRole("tab", { name: "Cost" }).click();
  const panel = page.getByRole("region", { name: "Cost" });
  await panel.getByRole("row", { name: /Model calls/ }).waitFor();
  await page.goto(`${studio.address}/workflows/helpdesk`);
  const end = panel.getByRole("button", { name: "/tool_executor" });
  await end.waitFor();
  await end.click();
  await page.getByRole("tab", { name: "Build", selected: true }).waitFor();
  await page
    .getByRole("region", { name: "Form" })
    .getByRole("heading", { name: /tool_executor/i })
    .waitFor();
  await close(opened);
});

test("the dialog of a run says what it can cost with these inputs", async () => {
  const opened = await open("workflows/support-reply");
  const { page } = opened;
  await page.getByRole("button", { name: "Run", exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox").first().fill("short");
  await dialog.getByText("What this run can cost").click();
  await dialog.getByRole("row", { name: /Tokens of prompts [\d,]+/ }).waitFor();
  await close(opened);
});

test("a step runs alone with the values of the last run, and with others", async () => {
  const opened = await open(`runs/${waiting}?step=/improve[0]`);
  const { page } = opened;
  await page.getByRole("region", { name: "Details" }).getByRole("button", { name: "Run this step" }).click();
  const dialog = page.getByRole("dialog");
  const field = dialog.getByRole("textbox").first();
  await field.waitFor();
  assert.notEqual(await field.inputValue(), "", "the value of the run is offered");
  await field.fill("another text");
  await dialog.getByRole("button", { name: "Run the step" }).click();
  await page.waitForURL((url) => url.pathname.includes("/runs/") && !url.pathname.endsWith(waiting));
  await page.getByRole("heading", { name: "Answer a support request: only the step “improve”" }).waitFor();
  await page.getByText("Succeeded").first().waitFor();
  const run = new URL(page.url()).pathname.split("/").at(-1);
  const { input } = (await (await fetch(`${studio.address}/api/v1/runs/${run}`)).json()).result.vars;
  assert.ok(input, "it has an output");
  await close(opened);
});

test("a part that is no step does not offer to run alone", async () => {
  const opened = await open("workflows/helpdesk");
  const { page } = opened;
  await page.getByRole("tab", { name: "Build" }).click();
  const form = page.getByRole("region", { name: "Form" });
  await page.locator(".part").nth(1).click();
  await form.getByRole("button", { name: "Run this step" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Run the step" }).waitFor();
  await page.keyboard.press("Escape");
  await page.locator(".part-list", { hasText: "Connections" }).locator(".part").last().click();
  await form.getByRole("button", { name: "Run this step" }).waitFor({ state: "detached" });
  await close(opened);
});

test("a family of forks is a tree, and a click compares with the origin", async () => {
  const run = await startRun(studio.address, "echo", { topic: "tides" }, 30);
  const steps = await (await fetch(`${studio.address}/api/v1/runs/${run}/steps`)).json();
  const at = steps.steps[0].path;
  const first = await post(`/api/v1/runs/${run}/fork?wait=30`, { at });
  await post(`/api/v1/runs/${first.run_id}/fork?wait=30`, { at });
  const opened = await open(`runs/${run}`);
  const { page } = opened;
  await page.getByRole("link", { name: "3 runs" }).click();
  const family = page.getByRole("region", { name: "Family" });
  await waitForCount(family.locator(".family-run"), 3);
  await family.getByRole("link", { name: "Compare with its origin" }).last().click();
  await page.waitForURL((url) => url.searchParams.get("left") === first.run_id);
  await page.getByText(/have the same result|The runs diverge/).waitFor();
  await waitForCount(family.locator(".family-run[data-shown]"), 2);
  await close(opened);
});

test("two versions of a workflow are compared by what they mean", async () => {
  const put = (prompt) =>
    fetch(`${studio.address}/api/v1/workflows/versioned`, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        id: "versioned",
        name: "Versioned",
        description: "d",
        steps: [
          {
            name: "say",
            functionId: "agent::chat",
            mode: "sequential",
            promptTemplate: prompt,
            errorMode: "fail",
          },
        ],
      }),
    });
  await put("First {{input}}");
  await put("Second {{input}}");
  const opened = await open("workflows/versioned");
  const { page } = opened;
  await page.getByRole("button", { name: "Versions" }).click();
  await page.getByRole("button", { name: /^Version 1/ }).click();
  await page.getByRole("link", { name: "Compare by meaning" }).click();
  await page.waitForURL(/compare\?a=versioned%401&b=versioned/);
  const step = page.getByRole("region", { name: "/say" });
  await step.getByText("changed").waitFor();
  await step.getByText("+ Second {{input}}").waitFor();
  await page.getByRole("tab", { name: "Text" }).click();
  await page.getByText("Second {{input}}").first().waitFor();
  await page.getByRole("tab", { name: "Meaning" }).click();
  await page.getByRole("combobox", { name: "Version" }).first().selectOption("2");
  await page.getByText("Both mean the same.").waitFor();
  await close(opened);
});

test("files beside the entry have forms, and undo takes a change back", async () => {
  const files = {};
  for (const name of ["find_city", "report", "shorten", "count_words"]) {
    files[`blocks/${name}.json`] = await readFile(new URL(`blocks/${name}.json`, EXAMPLE), "utf8");
  }
  files["analyse-review.json"] = await readFile(new URL("analyse-review.json", EXAMPLE), "utf8");
  files["notes.md"] = "How the review is read\n";
  const stored = await fetch(`${studio.address}/api/v1/workflows/analyse_review`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ entry: "analyse-review.json", files }),
  });
  assert.ok(stored.ok, await stored.text());
  const opened = await open("workflows/analyse_review");
  const { page } = opened;
  await page.getByRole("tab", { name: "Build" }).click();
  const form = page.getByRole("region", { name: "Form" });
  const list = page.getByRole("navigation", { name: "Files" });
  await list.getByRole("button", { name: /find_city\.json/ }).click();
  const description = form.getByLabel(/^Description/).first();
  await description.fill("Says what a text is about");
  await description.blur();
  await page.getByText("Unsaved changes").waitFor();
  await list.getByRole("button", { name: /notes\.md/ }).click();
  await form.getByLabel("Text").fill("Another note\n");
  await form.getByLabel("Text").blur();
  await page.keyboard.press("Control+s");
  await page.getByText("Saved", { exact: true }).first().waitFor();
  const source = await (await fetch(`${studio.address}/api/v1/workflows/analyse_review/source`)).json();
  assert.match(source.files["blocks/find_city.json"], /"description": "Says what a text is about"/);
  assert.equal(
    source.files["blocks/find_city.json"].replace(
      "Says what a text is about",
      JSON.parse(files["blocks/find_city.json"]).description,
    ),
    files["blocks/find_city.json"],
    "nothing else was changed",
  );
  assert.equal(source.files["notes.md"], "Another note\n");
  await page.getByRole("button", { name: "Undo" }).click();
  await page.getByText("Unsaved changes").waitFor();
  await page.waitForFunction(() =>
    document.querySelector(".builder-form textarea")?.value.startsWith("How the review"),
  );
  await close(opened);
});
