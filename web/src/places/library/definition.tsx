// The definition of a stored block, agent or tool as JSON that can be changed, and its versions.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { useMay } from "../../api/caller";
import { ApiError } from "../../api/client";
import { parseJson } from "../../api/json";
import { Pending, PendingScope, useHasPending } from "../../builder/pending";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { Conflict } from "../../ui/conflict";
import { formatTime } from "../../ui/format";
import { LeaveGuard } from "../../ui/leave-guard";
import { ErrorBox, Problem } from "../../ui/problem";
import { Editor } from "./editor";
import { type Part, readVersion, readVersions, type StoredKind, storePart } from "./entries";

type DefinitionProps = {
  kind: StoredKind;
  part: Part;
  tag: string | null;
  /** Whether it exists no longer, so that saving makes a new one. */
  isDeleted: boolean;
};

/** A changed text, with the tag of the version that it was made from. */
type Changed = { text: string; tag: string | null };

export function Definition({ kind, part, tag, isDeleted }: DefinitionProps) {
  const mayWrite = useMay("write");
  const source = useEditedSource({ kind, part, tag, isDeleted });
  const { text, setText, stored, save, load, problem, send, sendEdited, pending } = source;
  const isUnsaved = useHasPending(pending) || text !== stored;
  return (
    <section className="library-section" aria-label={t.library.source}>
      <h3>{t.library.source}</h3>
      <LeaveGuard isUnsaved={isUnsaved} isOfSelection />
      <PendingScope value={pending}>
        <Editor kind={kind} text={text} isReadOnly={!mayWrite} onChange={setText} onSave={sendEdited} />
      </PendingScope>
      <div className="library-actions">
        {mayWrite && (
          <Button look="main" disabled={save.isPending} onClick={sendEdited}>
            {t.library.save}
          </Button>
        )}
        {isUnsaved ? (
          <span className="soft">{t.workflow.unsaved}</span>
        ) : (
          save.isSuccess && (
            <span className="soft" role="status">
              {t.library.saved}
            </span>
          )
        )}
      </div>
      {problem && <Problem>{problem}</Problem>}
      {isDeleted && <Problem severity="warning">{t.conflict.deleted}</Problem>}
      {save.error && !isDeleted && (
        <SaveError
          error={save.error}
          mine={text}
          theirs={stored}
          onTakeTheirs={source.takeTheirs}
          onSaveOver={() => send(tag)}
        />
      )}
      <Versions kind={kind} id={part.id} onLoad={load.mutate} />
    </section>
  );
}

function toText(part: Part): string {
  return JSON.stringify(part.definition, null, 2);
}

function isConflict(error: unknown): boolean {
  return error instanceof ApiError && error.status === 412;
}

type SaveErrorProps = {
  error: Error;
  mine: string;
  theirs: string;
  onTakeTheirs: () => void;
  onSaveOver: () => void;
};

function SaveError({ error, ...texts }: SaveErrorProps) {
  return isConflict(error) ? <Conflict {...texts} /> : <ErrorBox error={error} />;
}

type VersionsProps = { kind: StoredKind; id: string; onLoad: (version: number) => void };

function Versions({ kind, id, onLoad }: VersionsProps) {
  const versions = useQuery({
    queryKey: ["library", kind, id, "versions"],
    queryFn: () => readVersions(kind, id),
  });
  return (
    <>
      <h3>{t.library.versions}</h3>
      <ul>
        {versions.data?.map(({ version, created_at }) => (
          <li key={version}>
            <button type="button" className="text-button" onClick={() => onLoad(version)}>
              {t.workflow.version(version)}
            </button>{" "}
            <span className="faint number">{formatTime(created_at)}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

/** The text of a part while it is edited. A save is based on the version that was there when the first change was made. */
function useEditedSource({ kind, part, tag, isDeleted }: DefinitionProps) {
  const queries = useQueryClient();
  const stored = toText(part);
  const [edited, setEdited] = useState<Changed>();
  const [problem, setProblem] = useState<string>();
  const text = edited?.text ?? stored;
  // What was changed last, also before the page shows it.
  const latest = useRef(edited);
  latest.current = edited;
  const setText = (next: string) => {
    latest.current = { text: next, tag: latest.current?.tag ?? tag };
    setEdited(latest.current);
  };
  const refresh = () => queries.invalidateQueries({ queryKey: ["library", kind] });
  const save = useMutation({
    mutationFn: (sent: Changed) =>
      storePart(kind, part.id, parseJson(sent.text), isDeleted ? null : sent.tag),
    onSuccess: async (_, sent) => {
      await refresh();
      const newest = queries.getQueryData<Pick<Changed, "tag">>(["library", kind, part.id]);
      // Text that was typed meanwhile is based on the saved text.
      setEdited((now) =>
        now === undefined || now.text === sent.text
          ? undefined
          : { text: now.text, tag: newest?.tag ?? null },
      );
    },
    // Theirs is read, to compare it.
    onError: (error) => isConflict(error) && void refresh(),
  });
  const load = useMutation({
    mutationFn: (version: number) => readVersion(kind, part.id, version),
    onSuccess: (found) => setText(toText(found)),
  });
  const send = (base: string | null) => {
    const sent = latest.current?.text ?? stored;
    try {
      parseJson(sent);
      setProblem(undefined);
      save.mutate({ text: sent, tag: base });
    } catch (error) {
      setProblem(t.library.invalid((error as Error).message));
    }
  };
  const [pending] = useState(() => new Pending());
  /** Saves, with what is just being entered in the form. */
  const sendEdited = async () => {
    if (await pending.settle()) send(latest.current?.tag ?? tag);
    else setProblem(t.build.notTaken(pending.readProblem() ?? t.build.notFitting));
  };
  return {
    text,
    setText,
    stored,
    save,
    load,
    problem,
    send,
    sendEdited: () => void sendEdited(),
    pending,
    takeTheirs: () => {
      save.reset();
      setEdited(undefined);
    },
  };
}
