// Takes the pictures of the documentation. `make images` runs it.
import { fileURLToPath } from "node:url";
import { openBrowser, openPage, startRun, startStudio } from "../browser/studio.mjs";

const FOLDER = fileURLToPath(new URL("../../docs/images/", import.meta.url));

const studio = await startStudio({ pauseMs: 25 });
const browser = await openBrowser();
try {
  const run = await startRun(studio.address, "support-reply", "My lamp arrived broken!", 60);
  const viewport = { width: 1440, height: 760 };
  const { page } = await openPage(browser, studio.address, { viewport, colorScheme: "light" });
  await page.goto(`${studio.address}/runs/${run}?step=/improve[1]&at=17`);
  await page.getByRole("tree").waitFor();
  await page.locator(".node").first().waitFor();
  await page.waitForTimeout(500);
  await page.screenshot({ path: `${FOLDER}run.png` });
  await page.goto(`${studio.address}/workflows/support-reply?step=/draft`);
  await page.getByRole("tab", { name: "Build" }).click();
  await page.getByLabel("Prompt template").waitFor();
  await page.waitForTimeout(500);
  await page.screenshot({ path: `${FOLDER}build.png` });
  await page.goto(`${studio.address}/chat`);
  await page.getByRole("button", { name: "New conversation: Help desk" }).click();
  await page.getByRole("textbox", { name: "Message" }).fill("Where is order 4711?");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Try again" }).waitFor();
  await page.screenshot({ path: `${FOLDER}chat.png` });
} finally {
  await browser.close();
  await studio.close();
}
