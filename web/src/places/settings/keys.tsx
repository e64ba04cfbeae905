// The API keys of the server: list, create, revoke. A secret is shown once.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { attemptHeader, createAttemptKey } from "../../api/attempt";
import { api, read, type Schemas } from "../../api/client";
import { t } from "../../strings";
import { Button, CopyButton } from "../../ui/button";
import { ConfirmDialog, Dialog } from "../../ui/dialog";
import { formatAge, formatTime } from "../../ui/format";
import { ErrorBox, Problem } from "../../ui/problem";
import { TableHead } from "../../ui/table-head";
import { Part } from "./part";

type Key = Schemas["KeyInfo"];

const SCOPES = ["read", "run", "write", "admin"] as const;

export function Keys() {
  const { data, error } = useQuery({
    queryKey: ["keys"],
    queryFn: () => read(api.GET("/api/v1/keys")),
    retry: false,
  });
  const [isCreating, setIsCreating] = useState(false);
  const [revoked, setRevoked] = useState<Key>();
  const queries = useQueryClient();
  const revoke = useMutation({
    mutationFn: (id: string) => read(api.DELETE("/api/v1/keys/{id}", { params: { path: { id } } })),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ["keys"] }),
  });
  return (
    <Part title={t.settings.keys} error={error}>
      {data && (
        <Button icon="plus" onClick={() => setIsCreating(true)}>
          {t.settings.newKey}
        </Button>
      )}
      {data?.items.length === 0 && <p className="soft">{t.settings.noKeys}</p>}
      {data && data.items.length > 0 && (
        <table className="table">
          <TableHead
            columns={[
              t.settings.keyName,
              t.settings.scopes,
              t.settings.user,
              t.settings.validity,
              t.settings.action,
            ]}
          />
          <tbody>
            {data.items.map((key) => (
              <tr key={key.id}>
                <td>{key.name}</td>
                <td>{key.scopes.join(", ")}</td>
                <td>{key.user ?? t.settings.anyUser}</td>
                <td className="number">{describeValidity(key)}</td>
                <td>
                  {key.revoked_at == null && !key.is_own && (
                    <Button look="danger" onClick={() => setRevoked(key)}>
                      {t.settings.revoke}
                    </Button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {revoke.error && <ErrorBox error={revoke.error} />}
      {isCreating && (
        <NewKey
          isFirst={!data?.items.some((key) => key.revoked_at == null)}
          onClose={() => setIsCreating(false)}
        />
      )}
      {revoked && (
        <ConfirmDialog
          title={t.settings.confirmRevoke(revoked.name)}
          help={t.settings.confirmRevokeHelp}
          confirm={t.settings.revoke}
          onConfirm={() => revoke.mutate(revoked.id)}
          onClose={() => setRevoked(undefined)}
        />
      )}
    </Part>
  );
}

function describeValidity(key: Key): string {
  const parts = [
    key.revoked_at != null && t.settings.revokedAt(formatTime(key.revoked_at)),
    key.expires_at != null && t.settings.expiresAt(formatTime(key.expires_at)),
    key.last_used_at == null ? t.settings.neverUsed : t.settings.lastUsed(formatAge(key.last_used_at)),
  ];
  return parts.filter(Boolean).join(", ");
}

type NewKeyProps = {
  /** Whether no key exists yet, so that this one alone can administrate the server later. */
  isFirst: boolean;
  onClose: () => void;
};

/** The scopes, the user and the expiry of a new key. */
type KeyEntry = { name: string; user: string; expires: string; scopes: string[] };

function useNewKey(entry: KeyEntry) {
  const queries = useQueryClient();
  const [attempt] = useState(createAttemptKey);
  return useMutation({
    mutationFn: () => {
      const { name, scopes, user, expires } = entry;
      const body = { name, scopes, ...(user && { user }), ...(expires && { expires }) };
      // Sending it again, because the answer was lost, makes no second key.
      return read(api.POST("/api/v1/keys", { body, headers: attemptHeader(attempt) }));
    },
    onSuccess: () => void queries.invalidateQueries({ queryKey: ["keys"] }),
  });
}

function NewKey({ isFirst, onClose }: NewKeyProps) {
  const [entry, setEntry] = useState<KeyEntry>({
    name: "",
    user: "",
    expires: "90d",
    scopes: isFirst ? ["admin"] : ["read", "run"],
  });
  const [isConfirmed, setIsConfirmed] = useState(false);
  const { scopes, user } = entry;
  // Only a key that may do everything, for every user, can create the next one.
  const locksOut = isFirst && (!scopes.includes("admin") || user.trim() !== "");
  const create = useNewKey(entry);
  const secret = create.data?.key;
  return (
    <Dialog label={t.settings.newKey} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          create.mutate();
        }}
      >
        <h2>{t.settings.newKey}</h2>
        {secret ? (
          <>
            <p>{t.settings.shownOnce}</p>
            <code className="settings-secret">{secret}</code>
            <CopyButton text={() => secret} />
          </>
        ) : (
          <KeyFields entry={entry} onChange={(changed) => setEntry({ ...entry, ...changed })}>
            {isFirst && <p className="soft">{t.settings.firstKey}</p>}
            {locksOut && <LockOutWarning isConfirmed={isConfirmed} onConfirm={setIsConfirmed} />}
          </KeyFields>
        )}
        {create.error && <ErrorBox error={create.error} />}
        <div className="dialog-actions">
          <Button onClick={onClose}>{t.close}</Button>
          {!secret && (
            <button
              type="submit"
              className="button"
              data-look="main"
              disabled={create.isPending || scopes.length === 0 || (locksOut && !isConfirmed)}
            >
              {t.settings.create}
            </button>
          )}
        </div>
      </form>
    </Dialog>
  );
}

type KeyFieldsProps = {
  entry: KeyEntry;
  onChange: (changed: Partial<KeyEntry>) => void;
  /** The explanation of the scopes. */
  children: ReactNode;
};

function KeyFields({ entry, onChange, children }: KeyFieldsProps) {
  const { name, user, expires, scopes } = entry;
  const toggle = (scope: string) =>
    scopes.includes(scope) ? scopes.filter((one) => one !== scope) : [...scopes, scope];
  return (
    <>
      <label className="field">
        <span>{t.settings.keyName}</span>
        <input
          className="input"
          required
          value={name}
          onChange={(event) => onChange({ name: event.target.value })}
        />
      </label>
      <fieldset className="settings-scopes">
        <legend>{t.settings.scopes}</legend>
        {SCOPES.map((scope) => (
          <label key={scope}>
            <input
              type="checkbox"
              checked={scopes.includes(scope)}
              onChange={() => onChange({ scopes: toggle(scope) })}
            />
            {scope}
          </label>
        ))}
      </fieldset>
      {children}
      <label className="field">
        <span>{t.settings.user}</span>
        <input className="input" value={user} onChange={(event) => onChange({ user: event.target.value })} />
        <small>{t.settings.userHelp}</small>
      </label>
      <label className="field">
        <span>{t.settings.expires}</span>
        <input
          className="input"
          value={expires}
          onChange={(event) => onChange({ expires: event.target.value })}
        />
        <small>{t.settings.expiresHelp}</small>
      </label>
    </>
  );
}

type LockOutWarningProps = { isConfirmed: boolean; onConfirm: (isConfirmed: boolean) => void };

/** Warns that no key could create another one. */
function LockOutWarning({ isConfirmed, onConfirm }: LockOutWarningProps) {
  return (
    <Problem severity="warning">
      {t.settings.lockedOut}
      <label className="settings-confirm">
        <input type="checkbox" checked={isConfirmed} onChange={(event) => onConfirm(event.target.checked)} />
        {t.settings.lockedOutConfirm}
      </label>
    </Problem>
  );
}
