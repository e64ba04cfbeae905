// A block, agent or tool: its definition, which can be changed if it is stored, its versions and uses, and a trial.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { ApiError } from "../../api/client";
import { parseJson } from "../../api/json";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { ConfirmDialog } from "../../ui/dialog";
import { formatTime } from "../../ui/format";
import { ErrorBox, Problem } from "../../ui/problem";
import { CodeBox } from "../../ui/value";
import {
  deletePart,
  originOf,
  type Part,
  readPart,
  readVersion,
  readVersions,
  type StoredKind,
  storePart,
} from "./entries";
import { TryBlock } from "./try-block";

type PartProps = { kind: StoredKind; id: string };

export function PartDetails({ kind, id }: PartProps) {
  const { data, error } = useQuery({
    queryKey: ["library", kind, id],
    queryFn: () => readPart(kind, id),
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (error) return <ErrorBox error={error} />;
  if (!data) return <p className="soft">{t.loading}</p>;
  const { part, tag } = data;
  return (
    <>
      <header className="library-head">
        <h2 className="mono cut">{id}</h2>
        <span className="badge">{originOf(part)}</span>
        {!part.is_built_in && <DeletePart kind={kind} id={id} />}
      </header>
      <Code part={part} />
      {kind === "blocks" && <TryBlock part={part} />}
      {part.is_built_in ? (
        <section className="library-section">
          <h3>{t.library.source}</h3>
          <CodeBox label={t.library.source} text={JSON.stringify(part.definition, null, 2)} />
        </section>
      ) : (
        <Definition key={part.hash} kind={kind} part={part} tag={tag} />
      )}
      <Uses part={part} />
    </>
  );
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
  const remove = useMutation({
    mutationFn: () => deletePart(kind, id),
    onSuccess: async () => {
      await navigate({ search: { kind } });
      void queries.invalidateQueries({ queryKey: ["library", kind] });
    },
  });
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

type DefinitionProps = { kind: StoredKind; part: Part; tag: string | null };

/** The definition as JSON that can be changed, and its versions. */
function Definition({ kind, part, tag }: DefinitionProps) {
  const queries = useQueryClient();
  const [text, setText] = useState(() => JSON.stringify(part.definition, null, 2));
  const [problem, setProblem] = useState<string>();
  const versions = useQuery({
    queryKey: ["library", kind, part.id, "versions"],
    queryFn: () => readVersions(kind, part.id),
  });
  const save = useMutation({
    mutationFn: (definition: unknown) => storePart(kind, part.id, definition, tag),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ["library", kind] }),
  });
  const load = useMutation({
    mutationFn: (version: number) => readVersion(kind, part.id, version),
    onSuccess: (found) => setText(JSON.stringify(found.definition, null, 2)),
  });
  const send = () => {
    try {
      save.mutate(parseJson(text));
      setProblem(undefined);
    } catch (error) {
      setProblem(t.library.invalid((error as Error).message));
    }
  };
  const isConflict = save.error instanceof ApiError && save.error.status === 412;
  return (
    <section className="library-section" aria-label={t.library.source}>
      <h3>{t.library.source}</h3>
      <textarea
        className="input mono library-source"
        rows={16}
        spellCheck={false}
        aria-label={t.library.source}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          if (!(event.ctrlKey || event.metaKey) || event.key !== "s") return;
          event.preventDefault();
          send();
        }}
      />
      <div className="library-actions">
        <Button look="main" disabled={save.isPending} onClick={send}>
          {t.library.save}
        </Button>
        {save.isSuccess && (
          <span className="soft" role="status">
            {t.library.saved}
          </span>
        )}
      </div>
      {problem && <Problem>{problem}</Problem>}
      {isConflict ? <Problem>{t.library.conflict}</Problem> : save.error && <ErrorBox error={save.error} />}
      <h3>{t.library.versions}</h3>
      <ul className="library-versions">
        {versions.data?.map(({ version, created_at }) => (
          <li key={version}>
            <button type="button" className="text-button" onClick={() => load.mutate(version)}>
              {t.workflow.version(version)}
            </button>{" "}
            <span className="faint number">{formatTime(created_at)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
