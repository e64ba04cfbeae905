import { expect, test } from "vitest";
import { ByteMap } from "./bytes";

test("places in a text with characters of every length", () => {
  const text = "aé漢😀z";
  const map = new ByteMap(text);
  const units = [0, 1, 2, 3, 5, 6];
  const bytes = [0, 1, 3, 6, 10, 11];
  expect(bytes.map((byte) => map.toUnit(byte))).toEqual(units);
  expect(units.map((unit) => map.toByte(unit))).toEqual(bytes);
  expect(map.toUnit(99)).toBe(text.length);
});
