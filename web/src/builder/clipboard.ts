// Parts on the clipboard: their text as it is written, with the format that it belongs to.

export type Copied = { format: string; list: string; text: string };

const KEY = "flowloom";

export function writeCopied(copied: Copied): string {
  return JSON.stringify({ [KEY]: copied }, null, 2);
}

/** The part on the clipboard; undefined if there is another text. */
export function readCopied(text: string): Copied | undefined {
  try {
    const copied = (JSON.parse(text) as Record<string, Partial<Copied> | undefined>)[KEY];
    const { format, list, text: part } = copied ?? {};
    if (typeof format === "string" && typeof list === "string" && typeof part === "string") {
      return { format, list, text: part };
    }
  } catch {
    // Any other text.
  }
  return undefined;
}
