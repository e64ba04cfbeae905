// Adds a definition: files that are chosen, or files and folders that are dropped anywhere on the page. The server
// recognises the format.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type DragEvent, type ReactNode, useRef, useState } from "react";
import { ApiError, api, read } from "../../api/client";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { ErrorBox, Problem } from "../../ui/problem";
import type { Source } from "../workflow/use-draft";
import {
  chooseEntry,
  findOthers,
  type GivenFile,
  guessFormat,
  placeCompanion,
  readDropped,
  type Verdict,
  withoutCommonFolder,
} from "./dropped";

/** The id of a workflow that a file has: its name without what ids cannot contain. */
export function idOfFile(name: string): string {
  return name
    .replace(/\.[^.]+$/, "")
    .replace(/[^A-Za-z0-9._-]+/g, "-")
    .replace(/^[-.]+|[-.]+$/g, "");
}

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

/** A definition with its files, and the format of one that cannot be read. */
type NewSource = Source & { format?: string };

/** The files as sources: one for each definition of its own. The server says which files are definitions. */
async function readSources(given: GivenFile[]): Promise<NewSource[]> {
  const paths = withoutCommonFolder(given.map(({ path }) => path));
  const contents = await Promise.all(given.map(({ file }) => file.text()));
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
    const { format } = await judge(only);
    const guessed = format ?? (foreign.has(only) ? undefined : guessFormat(only, texts.get(only) ?? ""));
    return [{ entry: only, files, ...(format === null && guessed && { format: guessed }) }];
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

export function AddWorkflow({ children }: { children: (button: ReactNode) => ReactNode }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const input = useRef<HTMLInputElement>(null);
  const [isOver, setIsOver] = useState(false);
  const add = useMutation({
    mutationFn: async (given: GivenFile[]) => {
      const added: string[] = [];
      for (const source of await readSources(given)) {
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
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setIsOver(false);
    void readDropped(event.dataTransfer).then((files) => files.length > 0 && add.mutate(files));
  };
  const isTaken = add.error instanceof ApiError && add.error.status === 412;
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
          {add.error instanceof NoDefinition ? (
            <Problem>{t.home.noDefinition}</Problem>
          ) : isTaken ? (
            <Problem>{t.home.exists(idOfFile(add.variables?.[0]?.path ?? ""))}</Problem>
          ) : (
            <ErrorBox error={add.error} />
          )}
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
