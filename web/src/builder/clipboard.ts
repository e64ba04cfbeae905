// Parts on the clipboard: their text as it is written, with the format that it belongs to.

/** A part that another one refers to: the agent of a node, or the block that it is made of. */
export type Needed = { list: string; id: string; text: string };

export type Copied = { format: string; list: string; text: string; needs: Needed[] };

const KEY = "flowloom";

export function writeCopied(copied: Copied): string {
  return JSON.stringify({ [KEY]: copied }, null, 2);
}

/** The part on the clipboard; undefined if there is another text. */
export function readCopied(text: string): Copied | undefined {
  try {
    const copied = (JSON.parse(text) as Record<string, Partial<Copied> | undefined>)[KEY];
    const { format, list, text: part, needs } = copied ?? {};
    if (typeof format === "string" && typeof list === "string" && typeof part === "string") {
      return { format, list, text: part, needs: Array.isArray(needs) ? needs.filter(isNeeded) : [] };
    }
  } catch {
    // Any other text.
  }
  return undefined;
}

function isNeeded(value: Partial<Needed> | null): value is Needed {
  return [value?.list, value?.id, value?.text].every((one) => typeof one === "string");
}
