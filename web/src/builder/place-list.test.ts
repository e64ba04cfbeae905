import { expect, test } from "vitest";
import { placeList } from "./place-list";

const field = (top: number) => ({ top, bottom: top + 32, left: 10, width: 300 });

test("a list is below its field, and above one that is low", () => {
  expect(placeList(field(100), 800)).toEqual({ left: 10, width: 300, maxHeight: 280, top: 136 });
  expect(placeList(field(700), 800)).toEqual({ left: 10, width: 300, maxHeight: 280, bottom: 104 });
});

test("a list is no higher than the room for it", () => {
  expect(placeList(field(100), 300).maxHeight).toBe(160);
  expect(placeList(field(200), 300).maxHeight).toBe(192);
});
