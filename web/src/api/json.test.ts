import { expect, test } from "vitest";
import { EventParser } from "./event-stream-parser";
import { ExactNumber, formatJson, parseJson, spreadJson } from "./json";

test("numbers that a double cannot hold keep their text", () => {
  const value = parseJson('{"id": 9007199254740993, "small": 12, "long": 0.12345678901234567891}') as Record<
    string,
    unknown
  >;
  // Without source text in revivers (older engines) numbers are rounded as everywhere.
  if (value.id instanceof ExactNumber) expect(value.id.text).toBe("9007199254740993");
  expect(value.small).toBe(12);
  expect(formatJson("a")).toBe('"a"');
});

test("events arrive in pieces", () => {
  const parser = new EventParser();
  expect(parser.push("id: 1\nevent: asked\ndata: {")).toEqual([]);
  expect(parser.push("}\n\n: beat\n\nevent: done\ndata: 1\n\nid")).toEqual([
    { name: "asked", data: "{}", id: "1" },
    { name: "done", data: "1" },
  ]);
});

test("events arrive wherever they are cut", () => {
  const text = "event: asked\ndata: {}\n\n\nevent: done\ndata: 1\n\n";
  for (const size of [1, 2, 3, 5, text.length]) {
    const parser = new EventParser();
    const pieces = Array.from({ length: Math.ceil(text.length / size) }, (_, at) =>
      text.slice(at * size, (at + 1) * size),
    );
    const events = pieces.flatMap((piece) => parser.push(piece));
    expect(events, `${size}`).toEqual([
      { name: "asked", data: "{}" },
      { name: "done", data: "1" },
    ]);
  }
});

test("a document in one line is spread, and other texts stay", () => {
  expect(spreadJson('{"a":1}')).toBe('{\n  "a": 1\n}');
  expect(spreadJson('{\n"a":1}')).toBe('{\n"a":1}');
  expect(spreadJson("# A title")).toBe("# A title");
});
