// Ids of new workflows, made from their names or files. The server decides which ids are valid
// (`crates/app/src/definitions/stored.rs`): letters and digits of any script are, except in step lists, which declare
// their id themselves (`crates/formats/src/steps/mod.rs`).

/** The form of an id, also for the attribute `pattern` of a field. */
export const ID_PATTERN = "[\\p{Alphabetic}\\p{N}_:\\-][\\p{Alphabetic}\\p{N}._:\\-]*";
const ID = new RegExp(`^${ID_PATTERN}$`, "u");
const MAX_ID_BYTES = 256;
/** The format whose ids have Latin letters only. */
const LATIN_FORMAT = "steps";
const NOT_LATIN = /[^A-Za-z0-9._:-]+/g;

/** A suggested id is no longer than this; each of them has at most four bytes. */
const MAX_SUGGESTED_CHARACTERS = 64;

/**
 * The id that a name suggests in a format: in lower case, Latin letters without accents, with hyphens between words. It is
 * empty if no letter of the name can be in an id.
 */
export function suggestId(name: string, format: string): string {
  const plain = name
    .normalize("NFKD")
    .replace(/(\p{Script=Latin})\p{M}+/gu, "$1")
    .normalize("NFC")
    .toLowerCase();
  return joinWords(format === LATIN_FORMAT ? plain.replace(NOT_LATIN, " ") : plain);
}

/** The id of a workflow that a file has: its name without what ids cannot contain. */
export function idOfFile(name: string): string {
  return joinWords(name.normalize("NFC").replace(/\.[^.]+$/, ""));
}

/** Replaces what ids cannot contain by hyphens. Marks that are no letters of their own belong to the letter before. */
function joinWords(text: string): string {
  const id = text
    .replace(/[^\P{M}\p{Alphabetic}]/gu, "")
    .replace(/[^\p{Alphabetic}\p{N}._-]+/gu, "-")
    .replace(/^[-.]+/, "");
  return Array.from(id)
    .slice(0, MAX_SUGGESTED_CHARACTERS)
    .join("")
    .replace(/[-.]+$/, "");
}

export function isId(id: string, format: string): boolean {
  if (format === LATIN_FORMAT && id.search(NOT_LATIN) >= 0) return false;
  return ID.test(id) && new TextEncoder().encode(id).length <= MAX_ID_BYTES;
}

/** A new definition with a name of its own: it begins with its id as the name. */
export function withName(text: string, id: string, name: string): string {
  const [quoted, title] = [JSON.stringify(id), JSON.stringify(name)];
  if (text.startsWith("---")) return text.replace(`title: ${id}`, () => `title: ${title}`);
  return text.replace(`"name": ${quoted}`, () => `"name": ${title}`);
}
