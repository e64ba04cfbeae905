// The kinds of parts that a search finds, the best match first.

type Findable = { title: string; name: string; meaning: string };

/** How well a kind matches: its whole title, the start of it, a word or a part of it, or only its description. */
function rankOf({ title, name, meaning }: Findable, search: string): number | undefined {
  const names = [title.toLowerCase(), name.toLowerCase()];
  const words = search.split(/\s+/);
  if (!words.every((word) => [...names, meaning.toLowerCase()].some((text) => text.includes(word))))
    return undefined;
  if (names.includes(search)) return 0;
  if (names.some((text) => text.startsWith(search))) return 1;
  if (names.some((text) => text.split(/[^\p{L}\d]+/u).some((word) => word.startsWith(search)))) return 2;
  return names.some((text) => words.every((word) => text.includes(word))) ? 3 : 4;
}

export function findKinds<Kind extends Findable>(kinds: readonly Kind[], search: string): Kind[] {
  const wanted = search.trim().toLowerCase();
  if (wanted === "") return [...kinds];
  return kinds
    .flatMap((kind) => {
      const rank = rankOf(kind, wanted);
      return rank === undefined ? [] : [{ kind, rank }];
    })
    .sort((one, other) => one.rank - other.rank)
    .map(({ kind }) => kind);
}
