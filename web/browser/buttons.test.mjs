// The text of every button can be read in every state, in both themes: the contrast that the browser computes.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { closePage, openBrowser, openPage, startStudio } from "./studio.mjs";

let studio;
let browser;

before(async () => {
  studio = await startStudio();
  browser = await openBrowser();
});

after(async () => {
  await browser?.close();
  await studio?.close();
});

const LOOKS = [undefined, "main", "danger", "quiet"];
/** Texts need 4.5:1; of a disabled button it suffices that it can be read. */
const MIN_CONTRAST = { rest: 4.5, hover: 4.5, focus: 4.5, disabled: 3 };

/** Puts a button of each look on the page, alone. */
function showButtons(looks) {
  const place = document.createElement("div");
  place.style.cssText = "position:fixed;inset:0;z-index:99;padding:40px;background:var(--surface)";
  for (const look of looks) {
    for (const isDisabled of [false, true]) {
      const button = document.createElement("button");
      button.className = "button";
      button.textContent = `${look} ${isDisabled}`;
      button.disabled = isDisabled;
      if (look) button.dataset.look = look;
      place.append(button);
    }
  }
  document.body.append(place);
}

/** The contrast of a button's text to what is behind it. */
function measureContrast(button) {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const paint = (...colours) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const colour of colours) {
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
    }
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const toLuminance = (pixel) => {
    const [red, green, blue] = pixel.slice(0, 3).map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = [getComputedStyle(button.parentElement), getComputedStyle(button)].map(
    (style) => style.backgroundColor,
  );
  const lights = [
    toLuminance(paint(...behind)),
    toLuminance(paint(...behind, getComputedStyle(button).color)),
  ];
  return (Math.max(...lights) + 0.05) / (Math.min(...lights) + 0.05);
}

for (const colorScheme of ["light", "dark"]) {
  test(`the text of every button can be read in every state (${colorScheme})`, async () => {
    const opened = await openPage(browser, studio.address, { colorScheme });
    const { page } = opened;
    await page.goto(studio.address);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await page.evaluate(showButtons, LOOKS);
    const tooFaint = [];
    const measure = async (look, state, button) => {
      const contrast = await button.evaluate(measureContrast);
      if (contrast < MIN_CONTRAST[state]) tooFaint.push(`${look} ${state}: ${contrast.toFixed(2)}`);
    };
    for (const look of LOOKS) {
      const button = page.getByRole("button", { name: `${look} false`, exact: true });
      await page.mouse.move(1, 700);
      await measure(look, "rest", button);
      await button.hover();
      await measure(look, "hover", button);
      await button.focus();
      await measure(look, "focus", button);
      const disabled = page.getByRole("button", { name: `${look} true`, exact: true });
      await measure(look, "disabled", disabled);
      const own = await disabled.evaluate((one) => getComputedStyle(one).color);
      const enabled = await button.evaluate((one) => getComputedStyle(one).color);
      if (own === enabled) tooFaint.push(`${look}: disabled looks like enabled`);
      await disabled.hover({ force: true });
      await measure(look, "disabled", disabled);
    }
    assert.deepEqual(tooFaint, []);
    await closePage(opened);
  });
}
