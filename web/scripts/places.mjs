// The places of the studio with real content, for pictures of them.
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { startRun } from "../browser/studio.mjs";

const MESSAGE = "My lamp arrived broken, and nobody answers the phone!";

async function send(studio, method, path, body) {
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${studio.address}${path}`, { method, headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${path}: ${await response.text()}`);
  return response.json();
}

function chatStep(name, promptTemplate) {
  return { name, functionId: "agent::chat", mode: "sequential", promptTemplate, errorMode: "fail" };
}

/** A pipeline with a block that has a nested schema. */
const WEATHER = {
  pipeline: {
    id: "weather",
    name: "Weather of the week",
    nodes: [{ id: "n1", block_id: "forecast", inputs: { city: "Bergen", days: 3 } }],
    edges: [],
  },
  blocks: [
    {
      id: "forecast",
      name: "Forecast",
      description: "Says how the weather of a city will be.",
      category: "process",
      execution_type: "python",
      input_schema: {
        type: "object",
        properties: {
          city: { type: "string", description: "The city", minLength: 2 },
          days: { type: "integer", description: "How many days", minimum: 1 },
          unit: { type: "string", enum: ["celsius", "fahrenheit"] },
        },
        required: ["city"],
      },
      output_schema: {
        type: "object",
        properties: {
          days: {
            type: "array",
            description: "One after another",
            items: {
              type: "object",
              properties: { day: { type: "string" }, degrees: { type: "number" } },
              required: ["day", "degrees"],
            },
          },
        },
        required: ["days"],
      },
      source_code: 'def execute(inputs, context):\n    return {"days": []}\n',
    },
  ],
};

/** Runs workflows and stores versions, so that no place is empty. */
export async function fillStudio(studio) {
  for (let at = 0; at < 6; at++) await startRun(studio.address, "echo", { topic: "tides" }, 20);
  const failed = await startRun(studio.address, "broken", "Ada", 20);
  await startRun(studio.address, "many", "x", 60);
  const waiting = await startRun(studio.address, "support-reply", MESSAGE, 60);
  const fork = (run, at) => send(studio, "POST", `/api/v1/runs/${run}/fork?wait=30`, { at });
  const first = await fork(waiting, "/draft");
  await fork(waiting, "/improve");
  const second = await fork(first.run_id, "/improve");
  const store = (steps) =>
    send(studio, "PUT", "/api/v1/workflows/versioned", {
      id: "versioned",
      name: "Weekly digest",
      description: "Sums up the week in five lines",
      steps,
    });
  await store([chatStep("collect", "List what happened: {{input}}")]);
  await store([
    chatStep("collect", "List what happened this week:\n{{input}}"),
    chatStep("shorten", "At most five lines: {{collect}}"),
  ]);
  await send(studio, "PUT", "/api/v1/workflows/weather", WEATHER);
  await send(studio, "PUT", "/api/v1/workflows/letters", {
    name: "Letters",
    description: "Answers letters",
    systemPrompt: "You answer letters of customers in one friendly paragraph.",
    model: "house:small",
    tools: [],
  });
  const echo = await startRun(studio.address, "echo", { topic: "tea" }, 20);
  const recorded = await (await fetch(`${studio.address}/api/v1/runs/${echo}/test`)).text();
  await mkdir(join(studio.folder, "tests"), { recursive: true });
  await writeFile(join(studio.folder, "tests", "echo.json"), recorded);
  return { failed, waiting, left: first.run_id, right: second.run_id };
}

const press = (role, name) => (page) => page.getByRole(role, { name, exact: true }).first().click();

async function talk(page) {
  await page.getByRole("button", { name: "New conversation: Help desk" }).click();
  await page.getByRole("textbox", { name: "Message" }).fill("Where is order 4711?");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Try again" }).waitFor();
}

/** Shows the form where only one column has room. */
async function showForm(page) {
  const tab = page.getByRole("tab", { name: "Form", exact: true });
  if (await tab.isVisible()) await tab.click();
}

async function openBlock(page) {
  await page.locator(".part", { has: page.locator(".part-title", { hasText: /^Forecast$/ }) }).click();
  await showForm(page);
  await page.getByLabel("Name of city").evaluate((field) => field.closest(".schema-field").scrollIntoView());
}

async function openModels(page) {
  await showForm(page);
  await page.getByRole("button", { name: "Show models" }).click();
}

const toTemplates = (page) => page.locator("input[value=top-posts]").scrollIntoViewIfNeeded();

async function createPipeline(page) {
  await page.getByRole("textbox").fill("Notify me of the most frequent words of a text");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByText("Which text?").waitFor();
  await page.getByRole("textbox").fill("The sea was there. It was big.");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("button", { name: "Run it" }).waitFor();
}

/** Each place: its address, and what is done before the picture is taken. */
export function listPlaces({ failed, waiting, left, right }) {
  return {
    home: { path: "" },
    runs: { path: "runs" },
    run: { path: `runs/${waiting}` },
    step: { path: `runs/${waiting}?step=/improve[1]` },
    past: { path: `runs/${waiting}?step=/draft&at=14` },
    failed: { path: `runs/${failed}?step=/second&tab=attempts` },
    actions: { path: `runs/${failed}`, prepare: press("button", "Actions") },
    alone: { path: `runs/${waiting}?step=/draft`, prepare: press("button", "Run this step") },
    fork: { path: `runs/${waiting}?step=/draft`, prepare: press("button", "Fork from here") },
    workflow: { path: "workflows/support-reply?step=/draft" },
    build: { path: "workflows/support-reply?step=/draft", prepare: press("tab", "Build") },
    schema: { path: "workflows/weather?view=build", prepare: openBlock },
    model: { path: "workflows/letters?view=build", prepare: openModels },
    cost: { path: "workflows/helpdesk", prepare: press("tab", "Cost") },
    start: { path: "workflows/support-reply", prepare: press("button", "Run") },
    versions: { path: "workflows/versioned", prepare: press("button", "Versions") },
    call: { path: "workflows/echo", prepare: press("button", "Use it from…") },
    broken: { path: "workflows/broken" },
    inbox: { path: "inbox" },
    chat: { path: "chat" },
    talk: { path: "chat", prepare: talk },
    create: { path: "create" },
    created: { path: "create", prepare: createPipeline },
    new: { path: "new" },
    template: { path: "new?template=top-posts", prepare: toTemplates },
    library: { path: "library?kind=blocks&item=filter" },
    functions: { path: "library?kind=functions&item=agent::chat" },
    "try-function": { path: "library?kind=functions&item=notify::push" },
    tests: { path: "tests?definition=echo.json", prepare: press("button", "Run all") },
    compare: { path: `runs/compare?left=${left}&right=${right}` },
    meaning: { path: "compare?a=versioned@1&b=versioned" },
    settings: { path: "settings" },
    keys: { path: "", prepare: (page) => page.keyboard.press("?") },
    palette: { path: "", prepare: (page) => page.keyboard.press("Control+k") },
  };
}
