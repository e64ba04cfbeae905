// Measures what docs/decisions/studio.md promises: `npm run measure`. The events of the long run are made here, so that the
// page is measured and not the server.
import { openBrowser, openPage, startRun, startStudio } from "../browser/studio.mjs";

const NODES = 1000;
const EVENTS = 50_000;
const FRAMES_MS = 3000;
const LONG_RUN = "00000000-0000-7000-8000-000000000000";

function print(what, value, budget) {
  console.log(`${what.padEnd(44)} ${value.padEnd(14)} ${budget}`);
}

/** A run of many short steps, as the server streams it. */
function writeLongRun() {
  const start = Date.now() - 3_600_000;
  const lines = [];
  const add = (event, path, data) => {
    const seq = lines.length + 1;
    const record = { run: LONG_RUN, seq, at: start + seq * 10, path, attempt: 1, event, data };
    lines.push(`id: ${seq}\nevent: ${event}\ndata: ${JSON.stringify(record)}\n\n`);
  };
  add("run_created", "/", { format: "steps", name: "Long", inputs: "x", user: "local", limits: {} });
  add("run_started", "/", { epoch: 1 });
  for (let at = 0; lines.length < EVENTS - 2; at++) {
    const path = `/round[${at}]`;
    add("step_started", path, {
      kind: "generate",
      target: "house:small",
      hash: "0".repeat(32),
      class: "at_least_once",
    });
    const usage = { input_tokens: 20, output_tokens: 10, micro_usd: 3 };
    add("step_finished", path, { output: `The sea is calm in round ${at}, and the light is soft.`, usage });
  }
  add("run_finished", "/", { status: "succeeded" });
  return `${lines.join("")}event: done\ndata: {"status":"succeeded"}\n\n`;
}

async function timed(action) {
  const start = performance.now();
  await action();
  return performance.now() - start;
}

/** The median time between two frames while `move` is called at each frame. */
function measureFrames(page, move) {
  return page.evaluate(
    async ({ source, duration }) => {
      const step = new Function("at", source);
      const gaps = [];
      const start = performance.now();
      let last = start;
      for (let at = 0; last - start < duration; at++) {
        step(at);
        const now = await new Promise(requestAnimationFrame);
        gaps.push(now - last);
        last = now;
      }
      gaps.sort((one, other) => one - other);
      return { median: gaps[gaps.length >> 1], slow: gaps[Math.floor(gaps.length * 0.95)] };
    },
    { source: move, duration: FRAMES_MS },
  );
}

async function readMegabytes(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  return usedSize / 1e6;
}

async function measureStart(page, address, run) {
  await page.goto(address);
  const home = await timed(async () => {
    await page.goto(address);
    await page.getByRole("heading", { name: "Echo a topic" }).waitFor();
  });
  print("home usable after", `${Math.round(home)} ms`, "1000 ms");
  const opened = await timed(async () => {
    await page.goto(`${address}/runs/${run}`);
    await page.getByRole("treeitem").first().waitFor();
  });
  print("a run usable after", `${Math.round(opened)} ms`, "1000 ms");
}

async function measureGraph(page, address) {
  const steps = Array.from({ length: NODES }, (_, at) => ({
    name: `step${at}`,
    functionId: "agent::chat",
    mode: at % 3 === 0 ? "sequential" : "fanout",
    errorMode: "fail",
    promptTemplate: "hi",
  }));
  await fetch(`${address}/api/v1/workflows/large`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ id: "large", name: "Large", steps }),
  });
  const shown = await timed(async () => {
    await page.goto(`${address}/workflows/large`);
    await page.locator(".node").first().waitFor();
  });
  print(`${NODES} nodes shown after`, `${Math.round(shown)} ms`, "1000 ms for the layout");
  await page.locator(".react-flow__controls-zoomin").click();
  const { x, y, width, height } = await page.locator(".react-flow").first().boundingBox();
  await page.mouse.move(x + width / 2, y + height / 2);
  await page.mouse.down();
  const frames = measureFrames(page, "");
  for (let at = 0; at < 100; at++)
    await page.mouse.move(x + width / 2 + (at % 50), y + height / 2 + (at % 30));
  const { median, slow } = await frames;
  await page.mouse.up();
  print(
    "frames while the graph is dragged",
    `${Math.round(median)}/${Math.round(slow)} ms`,
    "33 ms (median, 95 %)",
  );
}

async function measureLongRun(page, address) {
  const events = writeLongRun();
  const answer = (body, contentType) => (route) => route.fulfill({ body, contentType });
  await page.route(`**/api/v1/runs/${LONG_RUN}/events*`, answer(events, "text/event-stream"));
  await page.route(`**/api/v1/runs/${LONG_RUN}/graph`, answer('{"nodes":[],"edges":[]}', "application/json"));
  await page.route(
    `**/api/v1/runs/${LONG_RUN}/family`,
    answer('{"members":[],"has_more":false}', "application/json"),
  );
  await page.route(`**/api/v1/runs/${LONG_RUN}`, answer("{}", "application/json"));
  const last = events.match(/^id: /gm).length;
  const opened = await timed(async () => {
    await page.goto(`${address}/runs/${LONG_RUN}`);
    await page.waitForFunction((count) => {
      const text = document.querySelector("[data-testid=position]")?.textContent ?? "";
      return text.replaceAll(/\D/g, "").endsWith(`${count}`);
    }, last);
  });
  print(
    `${last} events (${(events.length / 1e6).toFixed(1)} MB) open after`,
    `${Math.round(opened)} ms`,
    "2000 ms",
  );
  const scrub = `
    const track = document.querySelector(".track");
    const box = track.getBoundingClientRect();
    const x = box.left + box.width * ((at % 100) / 100);
    const options = { clientX: x, clientY: box.top + 2, bubbles: true, buttons: 1, pointerId: 1 };
    track.dispatchEvent(new PointerEvent("pointermove", options));`;
  const { median, slow } = await measureFrames(page, scrub);
  print(
    "frames while it is scrubbed",
    `${Math.round(median)}/${Math.round(slow)} ms`,
    "33 ms (median, 95 %)",
  );
  print("memory with it", `${Math.round(await readMegabytes(page))} MB`, "300 MB");
}

const studio = await startStudio();
const browser = await openBrowser();
try {
  const run = await startRun(studio.address, "support-reply", "The lamp arrived broken.", 30);
  const { page } = await openPage(browser, studio.address);
  await measureStart(page, studio.address, run);
  await measureGraph(page, studio.address);
  await measureLongRun(page, studio.address);
} finally {
  await browser.close();
  await studio.close();
}
