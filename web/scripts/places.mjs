// The places of the studio with real content, for pictures of them.
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
  return { failed, waiting, left: first.run_id, right: second.run_id };
}

const press = (role, name) => (page) => page.getByRole(role, { name, exact: true }).first().click();

async function talk(page) {
  await page.getByRole("button", { name: "New conversation: Help desk" }).click();
  await page.getByRole("textbox", { name: "Message" }).fill("Where is order 4711?");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Try again" }).waitFor();
}

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
    alone: { path: `runs/${waiting}?step=/draft`, prepare: press("button", "Run this step") },
    fork: { path: `runs/${waiting}?step=/draft`, prepare: press("button", "Fork from here") },
    workflow: { path: "workflows/support-reply?step=/draft" },
    build: { path: "workflows/support-reply?step=/draft", prepare: press("tab", "Build") },
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
    library: { path: "library?kind=blocks&item=filter" },
    functions: { path: "library?kind=functions&item=agent::chat" },
    tests: { path: "tests" },
    compare: { path: `runs/compare?left=${left}&right=${right}` },
    meaning: { path: "compare?a=versioned@1&b=versioned" },
    settings: { path: "settings" },
    keys: { path: "", prepare: (page) => page.keyboard.press("?") },
    palette: { path: "", prepare: (page) => page.keyboard.press("Control+k") },
  };
}
