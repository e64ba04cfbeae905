// Files next to the entry of a definition, and how they are shown as forms.

/** A definition around the text of a file, in which the file is the only part of a list. */
export type Wrapper = { list: string; before: string; after: string };

/** What a file is shown as: a text, the part of a definition, or nothing but its source. */
export type FileShape = { kind: "text" } | ({ kind: "part" } & Wrapper);

const WRAPPERS: { format: string; pattern: RegExp; list: string; before: string }[] = [
  {
    format: "pipeline",
    pattern: /(^|\/)blocks\/[^/]+\.json$/,
    list: "blocks",
    before: '{"pipeline":{"name":"file","nodes":[],"edges":[]},"blocks":[',
  },
  {
    format: "graph",
    pattern: /(^|\/)agents\/[^/]+\/jsonSchema\.json$/,
    list: "agents",
    before: '{"id":"file","name":"file","entrypointNodeId":"","nodes":[],"edges":[],"agents":[',
  },
];
const AFTER = "]}";

export function shapeOf(file: string, format: string): FileShape | undefined {
  if (/\.(md|txt)$/.test(file)) return { kind: "text" };
  const found = WRAPPERS.find((one) => one.format === format && one.pattern.test(file));
  return found && { kind: "part", list: found.list, before: found.before, after: AFTER };
}

export function wrapText(text: string, { before, after }: Wrapper): string {
  return before + text + after;
}

/** The text of the file in a definition around it; undefined if the definition is another one. */
export function unwrapText(text: string, { before, after }: Wrapper): string | undefined {
  const isAround = text.startsWith(before) && text.endsWith(after);
  return isAround ? text.slice(before.length, text.length - after.length) : undefined;
}
