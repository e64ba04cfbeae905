// Renders /openapi.json as a page. Its contents are inserted as text, never as markup.
"use strict";

/** Creates an element with attributes and children; strings become text nodes. */
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children.flat().filter((child) => child !== null && child !== ""));
  return made;
}

/** Text with `words` in backticks rendered as code. */
function prose(text) {
  return (text || "").split("`").map((part, index) => (index % 2 ? element("code", {}, part) : part));
}

/** The name of the schema that a `$ref` points to. */
const named = (schema) => (schema.$ref || "").split("/").pop();

/** A short name of a schema: `string`, `Run`, `array of Step`. */
function kind(schema) {
  if (!schema) return "";
  if (schema.$ref) return named(schema);
  const choices = schema.oneOf || schema.anyOf;
  if (choices) return choices.filter((one) => one.type !== "null").map(kind).join(" or ");
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" or ");
  const types = [schema.type].flat().filter((type) => type && type !== "null");
  if (types[0] === "array") return `array of ${kind(schema.items)}`;
  return types.join(" or ") || "any JSON";
}

const row = (...cells) => element("tr", {}, ...cells.map((cell) => element("td", {}, cell)));

function fields(schema) {
  const required = new Set(schema.required || []);
  const rows = Object.entries(schema.properties || {}).map(([name, field]) =>
    row(element("code", {}, name), `${kind(field)}${required.has(name) ? ", required" : ""}`, prose(field.description)));
  return element("table", {}, element("tbody", {}, rows));
}

function parameters(operation) {
  if (!operation.parameters) return null;
  const rows = operation.parameters.map((given) =>
    row(element("code", {}, given.name), `${kind(given.schema)}, ${given.in}`, prose(given.description)));
  return [element("h4", {}, "Parameters"), element("table", {}, element("tbody", {}, rows))];
}

function body(operation, schemas) {
  const schema = operation.requestBody?.content?.["application/json"]?.schema;
  if (!schema) return null;
  return [element("h4", {}, "Body"), fields(schemas[named(schema)] || schema)];
}

function responses(operation) {
  const line = ([status, response]) => {
    const content = Object.entries(response.content || {});
    const shown = content.map(([type, { schema }]) => (schema && schema.$ref ? named(schema) : type)).join(" or ");
    return row(element("code", {}, status), prose(response.description), shown);
  };
  const all = Object.entries(operation.responses);
  const table = (rows) => element("table", { class: "responses" }, element("tbody", {}, rows.map(line)));
  const good = all.filter(([status]) => status < "400");
  const bad = all.filter(([status]) => status >= "400");
  const problems = bad.length ? element("details", {}, element("summary", {}, `${bad.length} errors`), table(bad)) : null;
  return [element("h4", {}, "Responses"), table(good), problems];
}

function example(method, path, operation) {
  const parts = ["curl"];
  if (operation.security) parts.push("-H 'Authorization: Bearer fl_…'");
  if (operation.requestBody) parts.push("--json '{…}'");
  else if (method !== "get") parts.push(`-X ${method.toUpperCase()}`);
  parts.push(`'${location.origin}${path}'`);
  return element("pre", {}, parts.join(" "));
}

function section({ method, path, operation }, schemas) {
  const scope = operation.security?.flatMap((one) => Object.values(one).flat())[0];
  const badge = scope ? element("span", { class: "scope" }, `scope ${scope}`) : null;
  return element("section", { id: operation.operationId },
    element("h3", {}, element("span", { class: `method ${method}` }, method), " ",
      element("span", { class: "path" }, path), badge),
    element("p", {}, prose([operation.summary, operation.description].filter(Boolean).join(" "))),
    example(method, path, operation), parameters(operation) || "", body(operation, schemas) || "", responses(operation));
}

function draw(description) {
  const operations = Object.entries(description.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method, operation, tag: (operation.tags || ["other"])[0] })));
  const order = ["workflows", "runs"];
  const rank = (tag) => (order.indexOf(tag) + 1 || order.length + 1);
  const tags = [...new Set(operations.map(({ tag }) => tag))].sort((a, b) => rank(a) - rank(b));
  operations.sort((a, b) => tags.indexOf(a.tag) - tags.indexOf(b.tag));
  const schemas = description.components.schemas;

  const link = ({ method, path, operation }) => element("a", { href: `#${operation.operationId}`, title: path },
    element("span", { class: `method ${method}` }, method), operation.operationId.replaceAll("_", " "));
  const group = (tag) => [element("h2", {}, tag), ...operations.filter((one) => one.tag === tag).map(link)];
  document.getElementById("nav").append(
    element("strong", {}, description.info.title), ...tags.flatMap(group),
    element("h2", {}, "schemas"),
    ...Object.keys(schemas).map((name) => element("a", { href: `#schema-${name}` }, name)));

  const schema = ([name, one]) => element("section", { id: `schema-${name}` },
    element("h3", {}, element("span", { class: "path" }, name)), element("p", {}, prose(one.description)),
    one.properties ? fields(one) : element("p", {}, kind(one)));
  document.getElementById("main").replaceChildren(
    element("h1", {}, description.info.title),
    element("p", { class: "lead" }, `${description.info.description} Version ${description.info.version}. `,
      element("a", { href: "openapi.json" }, "OpenAPI document")),
    element("p", {}, prose("Errors are `application/problem+json` documents with a code, which `/errors/CODE` explains.")),
    ...operations.map((one) => section(one, schemas)), ...Object.entries(schemas).map(schema));
  if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
}

fetch("openapi.json")
  .then((answer) => (answer.ok ? answer.json() : Promise.reject(new Error(`status ${answer.status}`))))
  .then(draw)
  .catch((error) => {
    document.getElementById("note").textContent = `Cannot load the OpenAPI document: ${error.message}`;
  });
