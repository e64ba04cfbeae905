// Starts the program with a project for tests, and a browser that may reach nothing else.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, request as httpRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { AxeBuilder } from "@axe-core/playwright";
import packedChromium from "@sparticuz/chromium";
import { chromium } from "playwright-core";
import { startModelServer } from "./model-server.mjs";

const FIXTURE = fileURLToPath(new URL("fixture/", import.meta.url));
/** The program that is tested. */
export const PROGRAM =
  process.env.FLOWLOOM_PROGRAM ?? fileURLToPath(new URL("../../target/debug/flowloom", import.meta.url));
/** A folder with a newer page than that in the program, so that a change of the page needs no new program. */
const PAGE_FOLDER = process.env.FLOWLOOM_PAGE;
/** The help desk among the examples. */
const HELPDESK = fileURLToPath(new URL("../../examples/graph/", import.meta.url));
/** The answers of a planner. */
const AUTHOR = fileURLToPath(new URL("../../examples/author/frequent-words.script.json", import.meta.url));
const START_TIMEOUT_MS = 20_000;

/** A project with a model server and a running program. `prepare` may change the project before the program starts. */
export async function startStudio({ pauseMs, serveArguments = [], prepare, environment = {} } = {}) {
  const model = await startModelServer(pauseMs);
  const folder = await mkdtemp(join(tmpdir(), "studio-"));
  await cp(FIXTURE, folder, { recursive: true });
  for (const part of ["helpdesk.json", "agents"]) {
    await cp(join(HELPDESK, part), join(folder, part), { recursive: true });
  }
  await cp(AUTHOR, join(folder, "author.script.json"));
  const config = join(folder, "flowloom.toml");
  await writeFile(config, (await readFile(config, "utf8")).replaceAll("MODEL_PORT", model.port));
  const prepared = await prepare?.(folder);
  const server = await startServer(folder, ["--bind", "127.0.0.1:0", ...serveArguments], environment);
  return {
    folder,
    prepared,
    address: server.address,
    /** The process id of the program. */
    pid: () => server.pid,
    /** Ends the program as a crash does, and starts it at the same address. */
    async restart() {
      await server.kill("SIGKILL");
      const port = new URL(server.address).port;
      const started = await startServer(
        folder,
        ["--bind", `127.0.0.1:${port}`, ...serveArguments],
        environment,
      );
      Object.assign(server, started);
    },
    async close() {
      await server.kill("SIGTERM");
      model.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function startServer(folder, serveArguments, environment) {
  const program = spawn(PROGRAM, ["serve", folder, ...serveArguments], {
    cwd: folder,
    env: { ...process.env, ...environment },
    stdio: ["ignore", "ignore", "pipe"],
  });
  // A test that fails does not get to ending it.
  const endProgram = () => program.kill("SIGKILL");
  process.once("exit", endProgram);
  const ended = new Promise((resolve) => program.once("exit", resolve));
  ended.then(() => process.off("exit", endProgram));
  const address = await new Promise((resolve, reject) => {
    let output = "";
    const timer = setTimeout(
      () => reject(new Error(`the server did not start:\n${output}`)),
      START_TIMEOUT_MS,
    );
    program.stderr.on("data", (piece) => {
      output += piece;
      const found = /Serving .* at (http:\S+)/.exec(output);
      if (found) {
        clearTimeout(timer);
        resolve(found[1]);
      }
    });
    program.once("error", reject);
    program.once("exit", () => reject(new Error(`the server ended:\n${output}`)));
  });
  const kill = async (signal) => {
    program.kill(signal);
    await ended;
  };
  return { address, pid: program.pid, kill };
}

/** A proxy that removes a prefix from addresses, as those in front of servers do. */
export async function startProxy(prefix) {
  let target;
  const proxy = createServer((request, response) => {
    const url = new URL(request.url.replace(prefix, "") || "/", target);
    const forwarded = httpRequest(url, { method: request.method, headers: request.headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    forwarded.on("error", () => response.destroy());
    request.pipe(forwarded);
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  return {
    address: `http://127.0.0.1:${proxy.address().port}`,
    forwardTo: (address) => {
      target = address;
    },
    close: () => proxy.closeAllConnections() ?? proxy.close(),
  };
}

/** Runs a workflow through the API. */
export async function startRun(address, workflow, inputs, wait = 0) {
  const response = await fetch(`${address}/api/v1/runs?wait=${wait}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ workflow, inputs }),
  });
  const run = await response.json();
  if (!run.run_id) throw new Error(JSON.stringify(run));
  return run.run_id;
}

/** Waits until there are `count` elements. `count()` of a locator does not wait. */
export async function waitForCount(locator, count) {
  await locator.nth(count - 1).waitFor({ state: "attached" });
  assert.equal(await locator.count(), count);
}

/** Chooses an item of the menu in the header of a run. */
export async function chooseAction(page, name) {
  await page.getByRole("button", { name: "Actions", exact: true }).click();
  await page.getByRole("menuitem", { name }).click();
}

/** Chooses an action of the selected step: a button, or an item of the menu if it has no room. */
export async function chooseStepAction(page, name) {
  const details = page.getByRole("region", { name: "Details" });
  const button = details.getByRole("button", { name, exact: true });
  const more = details.getByRole("button", { name: "More actions" });
  await button.or(more).first().waitFor();
  if (await button.isVisible()) return button.click();
  await more.click();
  await details.getByRole("menuitem", { name }).click();
}

/** A browser. Debian's is used if it is named in `CHROMIUM`. */
export async function openBrowser() {
  const executablePath = process.env.CHROMIUM ?? (await packedChromium.executablePath());
  return chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
}

/** Answers with a file of the page that was built last; everything else comes from the program. */
async function sendBuiltFile(route) {
  const { pathname } = new URL(route.request().url());
  const asset = /\/assets\/[^/]+\.(js|css)$/.exec(pathname);
  if (asset) {
    const contentType = asset[1] === "js" ? "text/javascript" : "text/css";
    return route.fulfill({ path: join(PAGE_FOLDER, asset[0]), contentType });
  }
  if (route.request().resourceType() !== "document") return route.continue();
  const response = await route.fetch();
  return route.fulfill({ response, path: join(PAGE_FOLDER, "index.html") });
}

/** What axe finds on a page, in both themes. The colours are all that the themes differ in. */
export async function findViolations(page) {
  await page.emulateMedia({ colorScheme: "light" });
  const light = await new AxeBuilder({ page }).analyze();
  await page.emulateMedia({ colorScheme: "dark" });
  const dark = await new AxeBuilder({ page }).withRules("color-contrast").analyze();
  const describe = ({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`;
  return [...light.violations, ...dark.violations].map(describe);
}

/** Closes a page, which must have had no fault: no error in the console, no request to elsewhere. */
export async function closePage({ context, faults }) {
  await context.close();
  assert.deepEqual(faults, []);
}

/** A page that notes every request to another host, every error and every refusal of the security policy. */
export async function openPage(browser, address, { view = "source", ...options } = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 800 },
    reducedMotion: "reduce",
    ...options,
  });
  // Most tests edit sources. Whoever opens a workflow for the first time sees the builder.
  const keepView = (kept) =>
    localStorage.getItem("flowloom.view") ?? localStorage.setItem("flowloom.view", kept);
  if (view) await context.addInitScript(keepView, view);
  const page = await context.newPage();
  const faults = [];
  await context.route("**/*", (route) => {
    const url = route.request().url();
    if (url.startsWith(`${address}/`)) return PAGE_FOLDER ? sendBuiltFile(route) : route.continue();
    faults.push(`request to ${url}`);
    return route.abort();
  });
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning")
      faults.push(`${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  return { page, context, faults };
}
