import { expect, test } from "vitest";
import { nextPlace } from "./menu";

const items = ["Retry", "Resume", "Copy link"].map((title) => ({ title }));
const press = (key: string, at: number) =>
  nextPlace({ key, ctrlKey: false, metaKey: false, altKey: false }, at, items);

test("the arrow keys go around", () => {
  expect([press("ArrowDown", 2), press("ArrowUp", 0), press("Home", 1), press("End", 0)]).toEqual([
    0, 2, 0, 2,
  ]);
});

test("a letter finds the next item that begins with it", () => {
  expect([press("r", 0), press("r", 1), press("C", 0), press("x", 0), press(" ", 0)]).toEqual([
    1,
    0,
    2,
    undefined,
    undefined,
  ]);
});
