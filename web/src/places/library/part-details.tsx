// A block, agent or tool: its definition, which can be changed if it is stored, its uses, and a trial.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useMay } from "../../api/caller";
import { ApiError } from "../../api/client";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { ConfirmDialog } from "../../ui/dialog";
import { ErrorBox } from "../../ui/problem";
import { CodeBox } from "../../ui/value";
import { Definition } from "./definition";
import { deletePart, originOf, type Part, readPart, type StoredKind } from "./entries";
import { TryAgent, TryBlock, TryTool } from "./try-part";

type PartProps = { kind: StoredKind; id: string };

export function PartDetails({ kind, id }: PartProps) {
  const mayRun = useMay("run");
  const { data, error } = useQuery({
    queryKey: ["library", kind, id],
    queryFn: () => readPart(kind, id),
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (!data) return error ? <ErrorBox error={error} /> : <p className="soft">{t.loading}</p>;
  const { part, tag } = data;
  const isDeleted = error instanceof ApiError && error.status === 404;
  return (
    <>
      <header className="library-head">
        <h2 className="mono cut">{id}</h2>
        <span className="badge">{originOf(part)}</span>
        {!part.is_built_in && <DeletePart kind={kind} id={id} />}
      </header>
      <Code part={part} />
      {mayRun && !isDeleted && <Try key={tag} kind={kind} part={part} />}
      {part.is_built_in ? (
        <section className="library-section">
          <h3>{t.library.source}</h3>
          <CodeBox label={t.library.source} text={JSON.stringify(part.definition, null, 2)} />
        </section>
      ) : (
        <Definition kind={kind} part={part} tag={tag} isDeleted={isDeleted} />
      )}
      <Uses part={part} />
    </>
  );
}

function Try({ kind, part }: { kind: StoredKind; part: Part }) {
  switch (kind) {
    case "blocks":
      return <TryBlock part={part} />;
    case "agents":
      return <TryAgent id={part.id} />;
    case "tools":
      return <TryTool part={part} />;
  }
}

/** The source code or the prompt of a block, which JSON shows in one line. */
function Code({ part }: { part: Part }) {
  const { source_code, prompt_template, description } = part.definition as Record<string, unknown>;
  const text = [source_code, prompt_template].find((one) => typeof one === "string" && one !== "");
  return (
    <>
      {typeof description === "string" && <p>{description}</p>}
      {typeof text === "string" && <CodeBox label={t.create.source} text={text} />}
    </>
  );
}

function Uses({ part }: { part: Part }) {
  const uses = part.used_by ?? [];
  return (
    <section className="library-section" aria-label={t.library.usedBy}>
      <h3>{t.library.usedBy}</h3>
      {uses.length === 0 && <p className="soft">{t.library.unused}</p>}
      <ul>
        {uses.map((workflow) => (
          <li key={workflow}>
            <Link to="/workflows/$workflow" params={{ workflow }}>
              {workflow}
            </Link>
          </li>
        ))}
      </ul>
    </section>
  );
}

function DeletePart({ kind, id }: PartProps) {
  const navigate = useNavigate({ from: "/library" });
  const queries = useQueryClient();
  const [isAsking, setIsAsking] = useState(false);
  const mayWrite = useMay("write");
  const remove = useMutation({
    mutationFn: () => deletePart(kind, id),
    onSuccess: async () => {
      // Its changes are deleted with it.
      await navigate({ search: { kind }, ignoreBlocker: true });
      void queries.invalidateQueries({ queryKey: ["library", kind] });
    },
  });
  if (!mayWrite) return null;
  return (
    <>
      <Button look="danger" onClick={() => setIsAsking(true)}>
        {t.library.delete}
      </Button>
      {remove.error && <ErrorBox error={remove.error} />}
      {isAsking && (
        <ConfirmDialog
          title={t.library.confirmDelete(id)}
          help={t.library.confirmDeleteHelp}
          confirm={t.library.delete}
          onConfirm={() => remove.mutate()}
          onClose={() => setIsAsking(false)}
        />
      )}
    </>
  );
}
