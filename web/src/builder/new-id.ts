// Ids of new workflows, made from their names.

const ID = /^[A-Za-z0-9_:-][A-Za-z0-9._:-]*$/;

/** The id that a name suggests: in lower case, without accents, with hyphens between words. */
export function suggestId(name: string): string {
  return name
    .normalize("NFKD")
    .replace(/\p{M}/gu, "")
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, "-")
    .replace(/^[-.]+|[-.]+$/g, "");
}

export function isId(id: string): boolean {
  return ID.test(id);
}

/** A new definition with a name of its own: it begins with its id as the name. */
export function withName(text: string, id: string, name: string): string {
  const [quoted, title] = [JSON.stringify(id), JSON.stringify(name)];
  if (text.startsWith("---")) return text.replace(`title: ${id}`, () => `title: ${title}`);
  return text.replace(`"name": ${quoted}`, () => `"name": ${title}`);
}
