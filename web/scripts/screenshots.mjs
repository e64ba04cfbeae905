// Takes pictures of every place in both themes and three widths.
// Usage: node scripts/screenshots.mjs FOLDER [--widths=390,1280,1920] [--themes=light,dark] [NAME…]
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { openBrowser, openPage, startStudio } from "../browser/studio.mjs";
import { fillStudio, listPlaces } from "./places.mjs";

const HEIGHTS = { 390: 844, 1280: 800, 1920: 1080 };
/** After this time a place has drawn its data. */
const DRAW_MS = 900;

function readList(name, all) {
  const given = process.argv.find((argument) => argument.startsWith(`--${name}=`));
  return given ? given.split("=")[1].split(",") : all;
}

const [folder = "screenshots", ...names] = process.argv.slice(2).filter((given) => !given.startsWith("--"));
const widths = readList("widths", Object.keys(HEIGHTS));
const themes = readList("themes", ["light", "dark"]);

async function takePicture(page, place, file) {
  await page.goto(`${studio.address}/${place.path}`);
  await page.waitForTimeout(DRAW_MS);
  await place.prepare?.(page);
  await page.waitForTimeout(DRAW_MS);
  await page.screenshot({ path: file });
}

await mkdir(folder, { recursive: true });
const studio = await startStudio({ pauseMs: 8 });
const browser = await openBrowser();
try {
  const places = listPlaces(await fillStudio(studio));
  for (const colorScheme of themes) {
    for (const width of widths) {
      const viewport = { width: Number(width), height: HEIGHTS[width] };
      const { page, context, faults } = await openPage(browser, studio.address, { viewport, colorScheme });
      page.setDefaultTimeout(10_000);
      for (const [name, place] of Object.entries(places)) {
        if (names.length > 0 && !names.includes(name)) continue;
        const file = join(folder, `${name}-${colorScheme}-${width}.png`);
        await takePicture(page, place, file).catch((error) => faults.push(`${name}: ${error.message}`));
      }
      if (faults.length > 0) console.error([...new Set(faults)].join("\n"));
      await context.close();
    }
  }
} finally {
  await browser.close();
  await studio.close();
}
