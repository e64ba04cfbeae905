import { expect, test } from "vitest";
import type { Variable } from "./definition";
import { withSeenFields } from "./seen-fields";

const variable = (name: string, fields: Variable["fields"] = []): Variable => {
  return { name, type_name: "", origin: "", fields };
};

test("a variable without a schema has the fields of its last value", () => {
  const declared = [{ name: "a", type_name: "string", description: "" }];
  const variables = [variable("response"), variable("node", declared), variable("text"), variable("new")];
  const last = new Map(
    Object.entries({ response: { order: 7, items: [1], note: null }, node: { b: 1 }, text: "x" }),
  );
  const fields = withSeenFields(variables, last).map((one) =>
    one.fields.map((f) => `${f.name}:${f.type_name}`),
  );
  expect(fields).toEqual([["order:number", "items:array", "note:"], ["a:string"], [], []]);
});
