// Adds a definition: files that are chosen, or files and folders that are dropped anywhere on the page. The server
// recognises the format.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type DragEvent, type ReactNode, useRef, useState } from "react";
import { ApiError, api, read } from "../../api/client";
import { idOfFile } from "../../builder/new-id";
import { t } from "../../strings";
import { Button, IconButton } from "../../ui/button";
import { ErrorBox, Problem } from "../../ui/problem";
import type { Source } from "../workflow/use-draft";
import {
  chooseEntry,
  findOthers,
  type GivenFile,
  guessFormat,
  isBinary,
  isJson,
  isObjectStart,
  placeCompanion,
  readDropped,
  type Verdict,
  withoutCommonFolder,
} from "./dropped";
import { unwrapFlow } from "./hub-item";

/** The id that a definition declares, or that of its file. */
function idOfDefinition(name: string, text: string): string {
  try {
    const definition = JSON.parse(text) as { id?: unknown };
    if (typeof definition.id === "string" && definition.id !== "") return definition.id;
  } catch {
    // Only JSON declares an id that the address must repeat.
  }
  return idOfFile(name);
}

/** None of several files is a definition. */
class NoDefinition extends Error {}

/** The only file is no definition. */
class NotWorkflow extends Error {
  constructor(readonly file: string) {
    super();
  }
}

/** The only file is JSON that cannot be read and in which nothing shows a format. It can be a draft of the format `steps`. */
class Unreadable extends Error {
  constructor(readonly draft: NewSource) {
    super();
  }
}

/** A definition with its files, and the format of one that cannot be read. */
type NewSource = Source & { format?: string };

/** The files as sources: one for each definition of its own. The server determines which files are definitions. */
async function readSources(given: GivenFile[]): Promise<NewSource[]> {
  const paths = withoutCommonFolder(given.map(({ path }) => path));
  const contents = await Promise.all(given.map(async ({ file }) => unwrapFlow(await file.text())));
  const texts = new Map(paths.map((path, at) => [path, contents[at] ?? ""]));
  const files = Object.fromEntries(texts);
  const judged = new Map<string, Verdict>();
  const judge = async (entry: string) => {
    const body = { entry, files } as never;
    const { format, is_refused, problems } = await read(api.POST("/api/v1/check", { body }));
    const verdict = { format: format ?? null, isRefused: is_refused, problems: problems.length };
    judged.set(entry, verdict);
    // What the server knows to be something else is no draft.
    if (format == null && problems.some(({ code }) => code === UNKNOWN_FORMAT)) foreign.add(entry);
    return verdict;
  };
  const foreign = new Set<string>();
  const [only] = paths;
  if (paths.length === 1 && only !== undefined) {
    const text = texts.get(only) ?? "";
    if (isBinary(text)) throw new NotWorkflow(only);
    const { format } = await judge(only);
    // The server recognises the format of JSON.
    if (format !== null || (foreign.has(only) && isJson(text))) return [{ entry: only, files }];
    const guessed = foreign.has(only) ? undefined : guessFormat(only, text);
    if (guessed) return [{ entry: only, files, format: guessed }];
    throw isObjectStart(text) && !isJson(text)
      ? new Unreadable({ entry: only, files, format: "steps" })
      : new NotWorkflow(only);
  }
  const found = await chooseEntry(paths, judge);
  if (!found) throw new NoDefinition();
  const others = findOthers(found.path, texts, judged);
  const entries = [found, ...others.map((path) => ({ path, format: judged.get(path)?.format ?? null }))];
  return entries.map(({ path: entry, format }) => {
    const isPart = ([path]: [string, string]) =>
      path === entry || (path !== found.path && !others.includes(path));
    const placed = Object.entries(files)
      .filter(isPart)
      .map(([path, text]) => [placeCompanion(path, entry, format), text]);
    return { entry, files: Object.fromEntries(placed) };
  });
}

/** The code of a text whose format is not known. */
const UNKNOWN_FORMAT = "FL0109";

type AddProblemProps = {
  error: Error;
  given: GivenFile[] | NewSource | undefined;
  onDraft: (draft: NewSource) => void;
};

/** Why nothing was added, and what can be done. */
function AddProblem({ error, given, onDraft }: AddProblemProps) {
  if (error instanceof NoDefinition) return <Problem>{t.home.noDefinition}</Problem>;
  if (error instanceof NotWorkflow) return <Problem>{t.home.notWorkflow(error.file)}</Problem>;
  if (error instanceof Unreadable) {
    const { draft } = error;
    return (
      <Problem>
        {t.home.unreadable(draft.entry)} <Button onClick={() => onDraft(draft)}>{t.home.addDraft}</Button>
      </Problem>
    );
  }
  if (error instanceof ApiError && error.status === 412) {
    const name = Array.isArray(given) ? given[0]?.path : given?.entry;
    return <Problem>{t.home.exists(idOfFile(name ?? ""))}</Problem>;
  }
  return <ErrorBox error={error} />;
}

/** Stores the given files as workflows, and opens the workflow if it is one. */
function useAdd() {
  const queries = useQueryClient();
  const navigate = useNavigate();
  return useMutation({
    mutationFn: async (given: GivenFile[] | NewSource) => {
      const added: string[] = [];
      for (const source of Array.isArray(given) ? await readSources(given) : [given]) {
        const id = idOfDefinition(source.entry, source.files[source.entry] ?? "");
        const body = source as never;
        // A definition with problems becomes a draft, so that it can be mended here.
        const params = { path: { id }, query: { draft: true }, header: { "If-None-Match": "*" } } as never;
        await read(api.PUT("/api/v1/workflows/{id}", { params, body }));
        added.push(id);
      }
      return added;
    },
    onSuccess: async ([workflow, ...others]) => {
      await queries.invalidateQueries({ queryKey: ["workflows"] });
      if (others.length === 0 && workflow !== undefined)
        await navigate({ to: "/workflows/$workflow", params: { workflow }, search: { view: "source" } });
    },
  });
}

export function AddWorkflow({ children }: { children: (button: ReactNode) => ReactNode }) {
  const input = useRef<HTMLInputElement>(null);
  const [isOver, setIsOver] = useState(false);
  const add = useAdd();
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setIsOver(false);
    void readDropped(event.dataTransfer).then((files) => files.length > 0 && add.mutate(files));
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the button does the same without a mouse.
    <div
      className="drop-zone"
      data-over={isOver || undefined}
      role="presentation"
      onDragOver={(event) => {
        event.preventDefault();
        setIsOver(true);
      }}
      onDragLeave={() => setIsOver(false)}
      onDrop={drop}
    >
      {isOver && <p className="drop-hint">{t.home.drop}</p>}
      {add.data && add.data.length > 1 && (
        <p className="page drop-error" role="status">
          {t.home.addedAll(add.data)}
        </p>
      )}
      {add.error && (
        <div className="page drop-error">
          <AddProblem error={add.error} given={add.variables} onDraft={add.mutate} />
          <IconButton icon="close" label={t.close} onClick={add.reset} />
        </div>
      )}
      <input
        ref={input}
        type="file"
        hidden
        aria-label={t.home.add}
        multiple
        accept=".json,.jsonc,.js,.md,.mdx,.yaml,.yml"
        onChange={(event) => {
          const files = [...(event.target.files ?? [])];
          event.target.value = "";
          if (files.length > 0) add.mutate(files.map((file) => ({ path: file.name, file })));
        }}
      />
      {children(
        <Button icon="plus" onClick={() => input.current?.click()} disabled={add.isPending}>
          {t.home.add}
        </Button>,
      )}
    </div>
  );
}
