// Takes pictures of every place in both themes and three widths. Usage: node scripts/screenshots.mjs FOLDER [NAME…]
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { openBrowser, openPage, startRun, startStudio } from "../browser/studio.mjs";

const [folder = "screenshots", ...names] = process.argv.slice(2);
const WIDTHS = { 390: 844, 1280: 800, 1920: 1080 };

await mkdir(folder, { recursive: true });
const studio = await startStudio({ pauseMs: 20 });
const browser = await openBrowser();
try {
  const message = "My lamp arrived broken, and nobody answers the phone!";
  for (let at = 0; at < 6; at++) await startRun(studio.address, "echo", { topic: "tides" }, 20);
  const failed = await startRun(studio.address, "broken", "Ada", 20);
  await startRun(studio.address, "many", "x", 60);
  const waiting = await startRun(studio.address, "support-reply", message, 60);
  const places = {
    home: "",
    runs: "runs",
    run: `runs/${waiting}`,
    step: `runs/${waiting}?step=/improve[1]`,
    past: `runs/${waiting}?step=/draft&at=14`,
    failed: `runs/${failed}?step=/second&tab=attempts`,
    workflow: "workflows/support-reply?step=/draft",
    broken: "workflows/broken",
    inbox: "inbox",
    settings: "settings",
  };
  for (const colorScheme of ["light", "dark"]) {
    for (const [width, height] of Object.entries(WIDTHS)) {
      const viewport = { width: Number(width), height };
      const { page, context, faults } = await openPage(browser, studio.address, { viewport, colorScheme });
      for (const [name, path] of Object.entries(places)) {
        if (names.length > 0 && !names.includes(name)) continue;
        await page.goto(`${studio.address}/${path}`);
        await page.waitForLoadState("load");
        await page.waitForTimeout(900);
        await page.screenshot({ path: join(folder, `${name}-${colorScheme}-${width}.png`) });
      }
      if (faults.length > 0) console.error([...new Set(faults)].join("\n"));
      await context.close();
    }
  }
} finally {
  await browser.close();
  await studio.close();
}
