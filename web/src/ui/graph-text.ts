// The size of the texts of a graph. They are estimated: a font that is loaded later does not move the graph.
const CHARACTER_PX = 6;
const MAX_LABEL_CHARACTERS = 44;
/** A longer label has two lines. */
const MAX_LINE_CHARACTERS = 20;
const LABEL_LINE_PX = 16;

/** Characters that are wider than the mean, and their widths: those that fill a square, and the wide letters. */
const WIDE: readonly [pattern: RegExp, width: number][] = [
  [/[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\u3000-\u303f\uff00-\uff60]/u, 12],
  [/\p{Extended_Pictographic}/u, 14],
  [/[WM@%—…]/u, 11],
  [/[mw]/u, 9],
  [/\p{Lu}/u, 8],
];
/** Letters and marks that are narrower than the mean make up for the wide letters of a text. */
const NARROW = /[ijltfr .,:;'"|!()[\]]/;
const NARROW_PX = 3.5;

function measureCharacter(character: string): number {
  if (NARROW.test(character)) return NARROW_PX;
  return WIDE.find(([pattern]) => pattern.test(character))?.[1] ?? CHARACTER_PX;
}

/** The width of a line; that of as many mean characters, if its own are narrower. */
function measureLine(line: string): number {
  const characters = [...line];
  const width = characters.reduce((sum, character) => sum + measureCharacter(character), 0);
  return Math.max(width, characters.length * CHARACTER_PX);
}

function shortenLabel(label: string): string {
  return label.length > MAX_LABEL_CHARACTERS ? `${label.slice(0, MAX_LABEL_CHARACTERS - 1)}…` : label;
}

/** The lines of a label: two if it is long, so that it does not make the whole graph wide and small. */
export function wrapLabel(label: string): string[] {
  const shown = shortenLabel(label);
  if (shown.length <= MAX_LINE_CHARACTERS) return [shown];
  const middle = shown.length / 2;
  const gaps = [...shown.matchAll(/ /g)].map(({ index }) => index);
  const gap = gaps.sort((one, other) => Math.abs(one - middle) - Math.abs(other - middle))[0];
  return gap === undefined ? [shown] : [shown.slice(0, gap), shown.slice(gap + 1)];
}

/** The size of a label; an edge without a text needs no room for it. */
export function measureLabel(label: string): { width: number; height: number } {
  if (!label) return { width: 0, height: 0 };
  const lines = wrapLabel(label);
  return {
    width: Math.max(...lines.map(measureLine)),
    height: lines.length * LABEL_LINE_PX,
  };
}
