// The difference of two texts, line by line.

export type DiffLine = { change: "same" | "removed" | "added"; text: string };

/** Larger parts between equal starts and ends are shown as replaced whole. */
const MAX_CELLS = 4_000_000;

export function diffLines(before: string, after: string): DiffLine[] {
  const one = splitLines(before);
  const other = splitLines(after);
  let start = 0;
  while (start < one.length && start < other.length && one[start] === other[start]) start++;
  let end = 0;
  const isEqualAtEnd = () => one[one.length - 1 - end] === other[other.length - 1 - end];
  while (end < one.length - start && end < other.length - start && isEqualAtEnd()) end++;
  const same = (text: string): DiffLine => ({ change: "same", text });
  return [
    ...one.slice(0, start).map(same),
    ...diffMiddle(one.slice(start, one.length - end), other.slice(start, other.length - end)),
    ...one.slice(one.length - end).map(same),
  ];
}

/** The lines of a text; an empty text has none. */
function splitLines(text: string): string[] {
  return text === "" ? [] : text.split("\n");
}

/** By the longest common subsequence. */
function diffMiddle(one: string[], other: string[]): DiffLine[] {
  const removed = (text: string): DiffLine => ({ change: "removed", text });
  const added = (text: string): DiffLine => ({ change: "added", text });
  if (one.length * other.length > MAX_CELLS) return [...one.map(removed), ...other.map(added)];
  const width = other.length + 1;
  const lengths = new Uint32Array((one.length + 1) * width);
  const at = (row: number, column: number) => lengths[row * width + column] ?? 0;
  for (let row = one.length - 1; row >= 0; row--) {
    for (let column = other.length - 1; column >= 0; column--) {
      const isSame = one[row] === other[column];
      lengths[row * width + column] = isSame
        ? at(row + 1, column + 1) + 1
        : Math.max(at(row + 1, column), at(row, column + 1));
    }
  }
  const lines: DiffLine[] = [];
  let row = 0;
  let column = 0;
  while (row < one.length || column < other.length) {
    const left = one[row];
    const right = other[column];
    if (left !== undefined && left === right) {
      lines.push({ change: "same", text: left });
      row++;
      column++;
    } else if (left !== undefined && (right === undefined || at(row + 1, column) >= at(row, column + 1))) {
      lines.push(removed(left));
      row++;
    } else if (right !== undefined) {
      lines.push(added(right));
      column++;
    }
  }
  return lines;
}
