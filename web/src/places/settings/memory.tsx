// The memory of a user: what workflows remember, key by key. It can be changed and deleted here.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, read, readExactly } from "../../api/client";
import { formatJson, type Json, parseJson } from "../../api/json";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { ConfirmDialog } from "../../ui/dialog";
import { ErrorBox, Problem } from "../../ui/problem";
import { Part } from "./part";
import { UserField, useChosenUser } from "./user-field";

export function Memory() {
  const user = useChosenUser();
  return (
    <Part title={t.settings.memory} error={undefined}>
      {user && <UserField user={user} />}
      {user && <MemoryOf key={user.name} user={user.name} />}
    </Part>
  );
}

function MemoryOf({ user }: { user: string }) {
  const { data, error } = useQuery({
    queryKey: ["memory", user],
    queryFn: () => readExactly(`api/v1/memory/${encodeURIComponent(user)}`),
    enabled: user !== "",
    retry: false,
  });
  const [edited, setEdited] = useState<{ name: string; text: string }>();
  const entries = Object.entries((data as { [key: string]: Json } | undefined) ?? {});
  return (
    <>
      {error && <ErrorBox error={error} />}
      {data !== undefined && entries.length === 0 && <p className="soft">{t.settings.noMemory}</p>}
      <ul className="settings-memory">
        {entries.map(([key, value]) => (
          <li key={key}>
            <button
              type="button"
              className="text-button mono"
              onClick={() => setEdited({ name: key, text: formatJson(value) })}
            >
              {key}
            </button>
            <span className="soft cut">{typeof value === "string" ? value : JSON.stringify(value)}</span>
          </li>
        ))}
      </ul>
      {edited ? (
        <Entry key={edited.name} user={user} {...edited} onClose={() => setEdited(undefined)} />
      ) : (
        <Button icon="plus" onClick={() => setEdited({ name: "", text: '""' })}>
          {t.settings.newEntry}
        </Button>
      )}
    </>
  );
}

type EntryProps = { user: string; name: string; text: string; onClose: () => void };

/** Stores and deletes an entry. */
function useEntryChanges(user: string, key: string, onDone: () => void) {
  const queries = useQueryClient();
  const onSuccess = () => {
    onDone();
    void queries.invalidateQueries({ queryKey: ["memory", user] });
  };
  const params = { params: { path: { user, key } } };
  const save = useMutation({
    mutationFn: (value: Json) =>
      read(api.PUT("/api/v1/memory/{user}/{key}", { ...params, body: value as never })),
    onSuccess,
  });
  const remove = useMutation({
    mutationFn: () => read(api.DELETE("/api/v1/memory/{user}/{key}", params)),
    onSuccess,
  });
  return { save, remove };
}

function Entry({ user, name: known, text: before, onClose }: EntryProps) {
  const [name, setName] = useState(known);
  const [text, setText] = useState(before);
  const [isInvalid, setIsInvalid] = useState(false);
  const [isAsking, setIsAsking] = useState(false);
  const { save, remove } = useEntryChanges(user, name, onClose);
  const error = save.error ?? remove.error;
  return (
    <form
      className="settings-entry"
      onSubmit={(event) => {
        event.preventDefault();
        try {
          save.mutate(parseJson(text));
          setIsInvalid(false);
        } catch {
          setIsInvalid(true);
        }
      }}
    >
      <label className="field">
        <span>{t.settings.entryKey}</span>
        <input
          className="input mono"
          required
          readOnly={known !== ""}
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
      </label>
      <label className="field">
        <span>{t.settings.entryValue}</span>
        <textarea
          className="input mono"
          rows={5}
          spellCheck={false}
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
      </label>
      {isInvalid && <Problem>{t.answer.invalid}</Problem>}
      {error && <ErrorBox error={error} />}
      <div className="dialog-actions">
        {known !== "" && (
          <Button look="danger" onClick={() => setIsAsking(true)}>
            {t.settings.forgetEntry}
          </Button>
        )}
        <Button onClick={onClose}>{t.cancel}</Button>
        <button type="submit" className="button" data-look="main" disabled={save.isPending}>
          {t.workflow.save}
        </button>
      </div>
      {isAsking && (
        <ConfirmDialog
          title={t.settings.confirmForget(name)}
          help={t.settings.confirmForgetHelp}
          confirm={t.settings.forgetEntry}
          onConfirm={() => remove.mutate()}
          onClose={() => setIsAsking(false)}
        />
      )}
    </form>
  );
}
