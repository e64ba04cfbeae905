// Adds a definition: a file that is chosen, or dropped anywhere on the page. The server recognises its format.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type DragEvent, type ReactNode, useRef, useState } from "react";
import { ApiError, api, read } from "../../api/client";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { ErrorBox, Problem } from "../../ui/problem";

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

export function AddWorkflow({ children }: { children: (button: ReactNode) => ReactNode }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const input = useRef<HTMLInputElement>(null);
  const [isOver, setIsOver] = useState(false);
  const add = useMutation({
    mutationFn: async (file: File) => {
      const text = await file.text();
      const id = idOfDefinition(file.name, text);
      const body = { entry: file.name, files: { [file.name]: text } } as never;
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
    const [file] = event.dataTransfer.files;
    if (file) add.mutate(file);
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
          {isTaken ? (
            <Problem>{t.home.exists(idOfFile(add.variables?.name ?? ""))}</Problem>
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
        accept=".json,.md,.mdx,.yaml,.yml"
        onChange={(event) => {
          const file = event.target.files?.[0];
          if (file) add.mutate(file);
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
