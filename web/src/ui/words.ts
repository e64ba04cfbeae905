// Keys of formats as words.

/** Words that are written in capitals. */
const CAPITALS = /\b(id|url|json|llm|http|api)\b/gi;

/** A key as words: `resultVariable` is "Result variable". */
export function toWords(key: string): string {
  const words = key
    .replaceAll(/[_-]+/g, " ")
    .replaceAll(/([a-z\d])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .trim();
  const label = words.charAt(0).toUpperCase() + words.slice(1);
  return label.replace(CAPITALS, (word) => word.toUpperCase());
}
