// Pictures of the run page at fixed events. Everything that could differ is fixed: the events and the graph come from a
// recording, the fonts from a package, the clock stands. FLOWLOOM_UPDATE_SNAPSHOTS=1 accepts what is seen.
import assert from "node:assert/strict";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { openBrowser, openPage, startRun, startStudio } from "./studio.mjs";

const FOLDER = new URL("snapshots/", import.meta.url);
const RECORDING = new URL("run.json", FOLDER);
const FONTS = new URL("../node_modules/@fontsource/inter/files/", import.meta.url);
const MAY_WRITE = process.env.FLOWLOOM_UPDATE_SNAPSHOTS === "1";
/** A channel of a pixel may differ by this much: edges of letters are drawn a little differently. */
const MAX_CHANNEL_DIFFERENCE = 48;
/** This share of the pixels may differ by more. */
const MAX_DIFFERENT_SHARE = 0.005;
const SIZE = { width: 1100, height: 640 };

let studio;
let browser;

before(async () => {
  studio = await startStudio();
  browser = await openBrowser();
  if (MAY_WRITE) await record();
});

after(async () => {
  await browser?.close();
  await studio?.close();
});

/** Records a run: its events as they are streamed, and its graph. */
async function record() {
  const run = await startRun(studio.address, "support-reply", "My lamp arrived broken!", 30);
  const address = `${studio.address}/api/v1/runs/${run}`;
  const abort = new AbortController();
  const stream = await fetch(`${address}/events?from=0`, { signal: abort.signal });
  const events = await stream.text();
  const graph = await (await fetch(`${address}/graph`)).json();
  await mkdir(FOLDER, { recursive: true });
  await writeFile(RECORDING, `${JSON.stringify({ run, events, graph }, null, 2)}\n`);
}

async function readFonts() {
  const face = async (weight) => {
    const font = await readFile(new URL(`inter-latin-${weight}-normal.woff2`, FONTS));
    return `@font-face { font-family: Fixed; font-weight: ${weight}; src: url(data:font/woff2;base64,${font.toString("base64")}) }`;
  };
  const faces = await Promise.all([400, 500, 600, 700].map(face));
  return `${faces.join("\n")} :root { --font: Fixed !important; --mono: Fixed !important } * { caret-color: transparent !important }`;
}

/** The recorded run at a position, drawn. */
async function draw({ at, step, colorScheme }) {
  const { run, events, graph } = JSON.parse(await readFile(RECORDING, "utf8"));
  const { page, context, faults } = await openPage(browser, studio.address, {
    viewport: SIZE,
    colorScheme,
    bypassCSP: true,
    locale: "en-US",
    timezoneId: "UTC",
    deviceScaleFactor: 1,
  });
  const answer = (body, contentType) => (route) => route.fulfill({ body, contentType });
  await page.route(`**/api/v1/runs/${run}/events*`, answer(events, "text/event-stream"));
  await page.route(`**/api/v1/runs/${run}/graph`, answer(JSON.stringify(graph), "application/json"));
  await page.route(
    `**/api/v1/runs/${run}/family`,
    answer('{"members":[],"has_more":false}', "application/json"),
  );
  await page.route(`**/api/v1/runs/${run}`, answer('{"status":"waiting"}', "application/json"));
  await page.route(/\/api\/v1\/runs\?/, answer('{"items":[],"next":null}', "application/json"));
  const last = Number(/.*"at":(\d+)/s.exec(events)[1]);
  await page.clock.setFixedTime(last + 1000);
  await page.goto(`${studio.address}/runs/${run}?at=${at}${step ? `&step=${step}` : ""}`);
  await page.addStyleTag({ content: await readFonts() });
  await page.locator(".node").first().waitFor();
  await page.getByRole("tree").waitFor();
  await page.evaluate(() => document.fonts.ready);
  await page.setViewportSize({ ...SIZE, width: SIZE.width - 1 });
  await page.setViewportSize(SIZE);
  await page.waitForTimeout(600);
  const picture = await page.screenshot({ animations: "disabled" });
  return { page, context, faults, picture };
}

/** The share of the pixels that differ, counted by the browser. */
function countDifferent(page, one, other) {
  const pictures = [one, other].map((picture) => `data:image/png;base64,${picture.toString("base64")}`);
  return page.evaluate(
    async ({ pictures, limit }) => {
      const [one, other] = await Promise.all(
        pictures.map(async (address) => {
          const image = new Image();
          image.src = address;
          await image.decode();
          const canvas = new OffscreenCanvas(image.width, image.height);
          const context = canvas.getContext("2d");
          context.drawImage(image, 0, 0);
          return context.getImageData(0, 0, image.width, image.height);
        }),
      );
      if (one.width !== other.width || one.height !== other.height) return 1;
      let different = 0;
      for (let at = 0; at < one.data.length; at += 4) {
        const channels = [0, 1, 2].map((channel) =>
          Math.abs(one.data[at + channel] - other.data[at + channel]),
        );
        if (Math.max(...channels) > limit) different++;
      }
      return different / (one.data.length / 4);
    },
    { pictures, limit: MAX_CHANNEL_DIFFERENCE },
  );
}

const MOMENTS = [
  { name: "beginning", at: 6, colorScheme: "light" },
  { name: "middle", at: 17, step: "/improve[1]", colorScheme: "light" },
  { name: "end", at: 21, step: "/draft", colorScheme: "dark" },
];

for (const moment of MOMENTS) {
  test(`the run page looks as before: ${moment.name}`, async () => {
    const { page, context, faults, picture } = await draw(moment);
    const expected = new URL(`${moment.name}.png`, FOLDER);
    const actual = new URL(`${moment.name}.actual.png`, FOLDER);
    if (MAY_WRITE) await writeFile(expected, picture);
    const share = await countDifferent(page, await readFile(expected), picture);
    await rm(actual, { force: true });
    if (share > MAX_DIFFERENT_SHARE) await writeFile(actual, picture);
    assert.ok(
      share <= MAX_DIFFERENT_SHARE,
      `${(share * 100).toFixed(2)} % of the pixels differ; see ${actual.pathname}`,
    );
    await context.close();
    assert.deepEqual(faults, []);
  });
}
