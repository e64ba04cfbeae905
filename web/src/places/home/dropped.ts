// Files that are dropped or chosen together: a definition and what belongs to it.

/** A file with its path below the folder that was dropped. */
export type GivenFile = { path: string; file: File };

/** The answer of the server about a definition whose entry is one of the files. */
export type Verdict = { format: string | null; isRefused: boolean; problems: number };

/** More files are not read. */
const MAX_FILES = 200;

/** The files of a drop; folders with everything in them. It must be called before the event has ended. */
export async function readDropped(transfer: DataTransfer): Promise<GivenFile[]> {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.() ?? null);
  const files = [...transfer.files];
  if (!entries.some((entry) => entry?.isDirectory)) return files.map((file) => ({ path: file.name, file }));
  const found: GivenFile[] = [];
  for (const entry of entries) if (entry) await collect(entry, "", found);
  return found;
}

async function collect(entry: FileSystemEntry, folder: string, found: GivenFile[]): Promise<void> {
  if (found.length >= MAX_FILES || entry.name.startsWith(".")) return;
  const path = folder + entry.name;
  if (entry.isFile) {
    const read = (entry as FileSystemFileEntry).file.bind(entry);
    found.push({ path, file: await new Promise<File>(read) });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  // A reader returns the next entries, and none at the end.
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) =>
      reader.readEntries(resolve, reject),
    );
    if (some.length === 0) return;
    for (const one of some) await collect(one, `${path}/`, found);
  }
}

/** Paths without the folder that all of them are in. */
export function withoutCommonFolder(paths: readonly string[]): string[] {
  const [first = ""] = paths;
  const folder = first.slice(0, first.indexOf("/") + 1);
  const isShared = folder !== "" && paths.every((path) => path.startsWith(folder));
  return isShared ? paths.map((path) => path.slice(folder.length)) : [...paths];
}

/** The file that is the definition: one with a known format, rather a workflow than an agent, with the fewest problems. */
export async function chooseEntry(
  paths: readonly string[],
  judge: (entry: string) => Promise<Verdict>,
): Promise<{ path: string; format: string | null } | undefined> {
  const [only] = paths;
  if (only !== undefined && paths.length === 1) return { path: only, format: null };
  let best: { path: string; format: string; rank: number } | undefined;
  for (const path of paths) {
    const { format, isRefused, problems } = await judge(path);
    if (format === null) continue;
    const depth = path.split("/").length - 1;
    const rank =
      (format === "agent" ? 1e6 : 0) + (isRefused ? 1e4 : 0) + depth * 1000 + Math.min(problems, 999);
    if (!best || rank < best.rank) best = { path, format, rank };
  }
  return best;
}

/** The formats whose definitions are workflows of their own, and no parts of others. */
const WHOLE = ["steps", "flow", "pipeline", "graph", "markdown"];

/**
 * The files that are separate workflows next to `entry`: definitions at the top, whose names no other file mentions.
 * `judged` holds the format of each file, and whether it has errors.
 */
export function findOthers(
  entry: string,
  texts: ReadonlyMap<string, string>,
  judged: ReadonlyMap<string, Verdict>,
): string[] {
  const isMentioned = (path: string) => {
    const name = path.replace(/\.[^.]+$/, "");
    return [...texts].some(([other, text]) => other !== path && text.includes(name));
  };
  return [...texts.keys()].filter((path) => {
    const verdict = judged.get(path);
    const isWhole = verdict?.format != null && WHOLE.includes(verdict.format) && !verdict.isRefused;
    return path !== entry && isWhole && !path.includes("/") && !isMentioned(path);
  });
}

/** What each format is recognised by in a text that cannot be parsed. */
const MARKS: readonly (readonly [format: string, mark: RegExp])[] = [
  ["steps", /"functionId"|"promptTemplate"/],
  ["pipeline", /"block_id"/],
  ["graph", /"entrypointNodeId"/],
  ["flow", /"llmInstruction"|"apiCall"|"resultVariable"/],
  ["agent", /"systemPrompt"/],
  ["steps", /"steps"\s*:/],
  ["pipeline", /"nodes"\s*:/],
];

/** The format that a broken text was probably meant in; undefined if nothing shows it. */
export function guessFormat(path: string, text: string): string | undefined {
  if (/\.mdx?$/.test(path)) return "markdown";
  return MARKS.find(([, mark]) => mark.test(text))?.[0];
}

/** Whether a file that was read as text is none. */
export function isBinary(text: string): boolean {
  return text.includes("\0") || text.includes("\uFFFD");
}

/** Whether a text begins as a JSON object does, also if it is cut off. */
export function isObjectStart(text: string): boolean {
  return /^\s*\{\s*["}]/.test(text);
}

export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Where formats look for files next to an entry. */
const COMPANION_FOLDERS: Record<string, string> = { pipeline: "blocks/", agent: "tools/" };

/** The path at which a file belongs to an entry: a file that was dropped next to it goes into the folder of its format. */
export function placeCompanion(path: string, entry: string, format: string | null): string {
  const folder = COMPANION_FOLDERS[format ?? ""];
  const isLoose = path !== entry && !path.includes("/") && path.endsWith(".json");
  return folder && isLoose ? folder + path : path;
}
