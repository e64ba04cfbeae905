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
import { chooseEntry, type GivenFile, placeCompanion, readDropped, withoutCommonFolder } from "./dropped";

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

/** The files as one source. The server says which of them is the definition. */
async function readSource(given: GivenFile[]): Promise<Source> {
  const paths = withoutCommonFolder(given.map(({ path }) => path));
  const texts = await Promise.all(given.map(({ file }) => file.text()));
  const files = Object.fromEntries(paths.map((path, at) => [path, texts[at] ?? ""]));
  const found = await chooseEntry(paths, async (entry) => {
    const { format, is_refused, problems } = await read(
      api.POST("/api/v1/check", { body: { entry, files } as never }),
    );
    return { format: format ?? null, isRefused: is_refused, problems: problems.length };
  });
  if (!found) throw new NoDefinition();
  const { path: entry, format } = found;
  const placed = Object.entries(files).map(([path, text]) => [placeCompanion(path, entry, format), text]);
  return { entry, files: Object.fromEntries(placed) };
}

export function AddWorkflow({ children }: { children: (button: ReactNode) => ReactNode }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const input = useRef<HTMLInputElement>(null);
  const [isOver, setIsOver] = useState(false);
  const add = useMutation({
    mutationFn: async (given: GivenFile[]) => {
      const source = await readSource(given);
      const id = idOfDefinition(source.entry, source.files[source.entry] ?? "");
      const body = source as never;
      // A definition with problems becomes a draft, so that it can be mended here.
      const params = { path: { id }, query: { draft: true }, header: { "If-None-Match": "*" } } as never;
      await read(api.PUT("/api/v1/workflows/{id}", { params, body }));
      return id;
    },
    onSuccess: async (workflow) => {
      await queries.invalidateQueries({ queryKey: ["workflows"] });
      await navigate({ to: "/workflows/$workflow", params: { workflow } });
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
