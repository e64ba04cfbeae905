// JSON Schemas as a form changes them. Every function returns a new schema with the keywords that it does not know as
// they were.
import type { Json } from "../../api/json";

/** A JSON Schema that is an object. */
export type SchemaNode = { [keyword: string]: Json };

export const TYPES = ["string", "number", "integer", "boolean", "array", "object"] as const;
export type SchemaType = (typeof TYPES)[number];

/** Keywords that the form shows. */
const SHOWN = ["type", "description", "enum", "properties", "required", "items"];

export function isNode(value: Json | undefined): value is SchemaNode {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !("$code" in value);
}

/** The type of a schema, if it is one that the form knows; `any` if it has none, and undefined if it has several. */
export function typeOf(node: SchemaNode): SchemaType | "any" | undefined {
  if (node.type === undefined) return isNode(node.properties) ? "object" : "any";
  return TYPES.find((type) => type === node.type);
}

/** The keywords of a schema that the form has no field for. */
export function otherKeywords(node: SchemaNode): string[] {
  const hasChoices = node.enum === undefined || readChoices(node) !== undefined;
  return Object.keys(node).filter(
    (key) =>
      !SHOWN.includes(key) || (key === "enum" && !hasChoices) || (key === "items" && !isNode(node.items)),
  );
}

/** Whether the form can show a schema at all: each part of it may have other keywords. */
export function canShow(value: Json | undefined): boolean {
  if (value === undefined || value === null) return true;
  if (!isNode(value)) return false;
  const { properties, required } = value;
  const areNodes =
    properties === undefined || (isNode(properties) && Object.values(properties).every(isNode));
  const areNames = required === undefined || (Array.isArray(required) && required.every(isText));
  return areNodes && areNames && typeOf(value) !== undefined;
}

function isText(value: Json): value is string {
  return typeof value === "string";
}

/** A schema with a keyword of this value; without a value, the keyword is removed. */
export function withKeyword(node: SchemaNode, key: string, value: Json | undefined): SchemaNode {
  if (value !== undefined) return { ...node, [key]: value };
  const { [key]: _, ...rest } = node;
  return rest;
}

/** A schema of another type. What only the old type has a meaning for is removed. */
export function withType(node: SchemaNode, type: SchemaType | "any"): SchemaNode {
  let next = withKeyword(node, "type", type === "any" ? undefined : type);
  if (type !== "object")
    for (const key of ["properties", "required"]) next = withKeyword(next, key, undefined);
  if (type !== "array") next = withKeyword(next, "items", undefined);
  if (type === "array" && next.items === undefined) next.items = { type: "string" };
  if (type === "object" && next.properties === undefined) next.properties = {};
  const choices = readChoices(node);
  if (choices && !hasChoices(type)) next = withKeyword(next, "enum", undefined);
  else if (choices) next = withChoices(next, choices);
  return next;
}

/** Whether a value of this type can be one of a list. */
export function hasChoices(type: SchemaType | "any" | undefined): boolean {
  return type === "string" || type === "number" || type === "integer" || type === "any";
}

/** The values that a schema permits, one a line; undefined if they are no texts and numbers. */
export function readChoices(node: SchemaNode): string[] | undefined {
  if (!Array.isArray(node.enum)) return undefined;
  const isSimple = (one: Json) => typeof one === "string" || typeof one === "number";
  // A text that reads like a number is one only if the type is a number.
  return node.enum.every(isSimple) ? node.enum.map(String) : undefined;
}

/** A schema that permits these values. */
export function withChoices(node: SchemaNode, lines: readonly string[]): SchemaNode {
  const choices = lines.map((line) => line.trim()).filter((line) => line !== "");
  const isNumber = node.type === "number" || node.type === "integer";
  const before = Array.isArray(node.enum) ? node.enum : [];
  const toValue = (line: string): Json => {
    const number = Number(line);
    if (isNumber && Number.isFinite(number)) return number;
    // Without a type, a value stays what it was.
    const known = node.type === undefined ? before.find((one) => String(one) === line) : undefined;
    return known ?? line;
  };
  return withKeyword(node, "enum", choices.length > 0 ? choices.map(toValue) : undefined);
}

/** The properties of an object, in their order. */
export function listProperties(node: SchemaNode): [string, SchemaNode][] {
  return isNode(node.properties) ? (Object.entries(node.properties) as [string, SchemaNode][]) : [];
}

export function isRequired(node: SchemaNode, name: string): boolean {
  return Array.isArray(node.required) && node.required.includes(name);
}

export function withRequired(node: SchemaNode, name: string, isNeeded: boolean): SchemaNode {
  const names = Array.isArray(node.required) ? node.required.filter((one) => one !== name) : [];
  if (isNeeded) names.push(name);
  return withKeyword(node, "required", names.length > 0 ? names : undefined);
}

export function withProperty(node: SchemaNode, name: string, property: SchemaNode): SchemaNode {
  const properties = isNode(node.properties) ? node.properties : {};
  return { ...node, properties: { ...properties, [name]: property } };
}

export function withoutProperty(node: SchemaNode, name: string): SchemaNode {
  const properties = withKeyword(isNode(node.properties) ? node.properties : {}, name, undefined);
  return withRequired({ ...node, properties }, name, false);
}

/** A schema in which a property has another name, at the same place and as required as before. */
export function withName(node: SchemaNode, from: string, to: string): SchemaNode {
  const entries = listProperties(node).map(([name, property]) => [name === from ? to : name, property]);
  const renamed = { ...node, properties: Object.fromEntries(entries) as SchemaNode };
  if (!Array.isArray(node.required)) return renamed;
  return { ...renamed, required: node.required.map((one) => (one === from ? to : one)) };
}

/** A name that no property has yet. */
export function freeName(node: SchemaNode): string {
  const taken = new Set(listProperties(node).map(([name]) => name));
  let number = 1;
  while (taken.has(number === 1 ? "field" : `field_${number}`)) number += 1;
  return number === 1 ? "field" : `field_${number}`;
}
