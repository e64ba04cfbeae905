import { expect, test } from "vitest";
import type { Json } from "../../api/json";
import { listChanges } from "./changes";
import {
  canShow,
  freeName,
  otherKeywords,
  readChoices,
  type SchemaNode,
  typeOf,
  withChoices,
  withName,
  withoutProperty,
  withRequired,
  withType,
} from "./schema";

const SCHEMA: SchemaNode = {
  $comment: "kept",
  type: "object",
  additionalProperties: false,
  properties: {
    city: { type: "string", minLength: 2, "x-hint": [1, { a: null }] },
    days: { type: "integer", minimum: 1 },
    either: { anyOf: [{ type: "string" }, { type: "null" }] },
  },
  required: ["days", "city"],
};

test("a property is renamed at its place, and stays required", () => {
  const next = withName(SCHEMA, "city", "place");
  expect(Object.keys(next.properties as object)).toEqual(["place", "days", "either"]);
  expect(next.required).toEqual(["days", "place"]);
  expect(next.additionalProperties).toBe(false);
});

test("keywords that the form does not know stay whatever is changed", () => {
  const city = (SCHEMA.properties as SchemaNode).city as SchemaNode;
  expect(withType(city, "number")).toEqual({ type: "number", minLength: 2, "x-hint": [1, { a: null }] });
  expect(withType(SCHEMA, "any")).toEqual({ $comment: "kept", additionalProperties: false });
  expect(withoutProperty(SCHEMA, "city")).toMatchObject({
    $comment: "kept",
    additionalProperties: false,
    required: ["days"],
  });
  expect(withRequired(withRequired(SCHEMA, "days", false), "city", false)).not.toHaveProperty("required");
});

test("what the form cannot express is named, or makes it give way to the text", () => {
  expect(otherKeywords((SCHEMA.properties as SchemaNode).either as SchemaNode)).toEqual(["anyOf"]);
  expect(typeOf({ type: ["string", "null"] })).toBeUndefined();
  expect(typeOf({ properties: {} })).toBe("object");
  const isShown = ([undefined, null, {}, SCHEMA] as (Json | undefined)[]).map(canShow);
  expect(isShown).toEqual([true, true, true, true]);
  const others = [true, [], "text", { type: ["string"] }, { properties: { a: true } }, { required: [1] }];
  expect(others.map((one) => canShow(one as Json))).toEqual(others.map(() => false));
});

test("choices are lines, and numbers where the type says so", () => {
  expect(withChoices({ type: "string" }, ["1", " b ", ""])).toEqual({ type: "string", enum: ["1", "b"] });
  expect(withChoices({ type: "integer" }, ["1", "2"])).toEqual({ type: "integer", enum: [1, 2] });
  expect(withChoices({ enum: [1, "a"] }, ["1", "a", "2"])).toEqual({ enum: [1, "a", "2"] });
  expect(withChoices({ enum: ["a"] }, [""])).toEqual({});
  expect(readChoices({ enum: [1, "a"] })).toEqual(["1", "a"]);
  expect(readChoices({ enum: [null] })).toBeUndefined();
  expect(withType({ type: "string", enum: ["1", "2"] }, "integer")).toEqual({
    type: "integer",
    enum: [1, 2],
  });
});

test("a new property has a name of its own", () => {
  expect(freeName({ properties: {} })).toBe("field");
  expect(freeName({ properties: { field: {}, field_2: {} } })).toBe("field_3");
});

test("only what differs is changed", () => {
  const path = ["blocks", 0, "input_schema"];
  expect(listChanges(SCHEMA, withName(SCHEMA, "city", "place"), path)).toEqual([
    { do: "rename_key", path: [...path, "properties", "city"], name: "place" },
    { do: "set", path: [...path, "required"], value: ["days", "place"] },
  ]);
  expect(listChanges(SCHEMA, SCHEMA, path)).toEqual([]);
  expect(listChanges(undefined, { type: "object" }, path)).toEqual([
    { do: "set", path, value: { type: "object" } },
  ]);
  expect(listChanges(SCHEMA, withoutProperty(SCHEMA, "city"), path)).toEqual([
    { do: "remove", path: [...path, "properties", "city"] },
    { do: "set", path: [...path, "required"], value: ["days"] },
  ]);
});
