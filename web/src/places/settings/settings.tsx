// Settings: health, models, quotas, keys, secrets, memory and the audit log.

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, read, SERVER } from "../../api/client";
import { keyHeaders } from "../../api/key";
import { t } from "../../strings";
import { formatAmount, formatTime } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { TableHead } from "../../ui/table-head";
import { useTitle } from "../../ui/title";
import { Keys } from "./keys";
import { Memory } from "./memory";
import { Models } from "./models";
import { OwnKey } from "./own-key";
import { Part } from "./part";
import { Secrets } from "./secrets";
import { UserField, useChosenUser } from "./user-field";
import "./settings.css";

export function Settings() {
  useTitle(t.settings.title);
  return (
    <div className="page settings">
      <h1>{t.settings.title}</h1>
      <nav className="settings-sections" aria-label={t.settings.sections}>
        {SECTIONS.map(({ id, title }) => (
          <Link key={id} to="/settings" hash={id} replace>
            {title}
          </Link>
        ))}
      </nav>
      <div className="settings-parts">
        {SECTIONS.map(({ id, Content }) => (
          <div key={id} id={id} className="settings-section">
            <Content />
          </div>
        ))}
      </div>
    </div>
  );
}

/** The sections, with the part of the address that leads to each. */
const SECTIONS = [
  { id: "key", title: t.key.ofTab, Content: OwnKey },
  { id: "health", title: t.settings.health, Content: Health },
  { id: "models", title: t.settings.models, Content: Models },
  { id: "usage", title: t.settings.usage, Content: Usage },
  { id: "keys", title: t.settings.keys, Content: Keys },
  { id: "secrets", title: t.settings.secrets, Content: Secrets },
  { id: "memory", title: t.settings.memory, Content: Memory },
  { id: "audit", title: t.settings.audit, Content: Audit },
];

function Health() {
  const { data: isReady, error } = useQuery({
    queryKey: ["health"],
    queryFn: async () => (await fetch(new URL("health/ready", SERVER), { headers: keyHeaders() })).ok,
    refetchInterval: 10_000,
  });
  return (
    <Part title={t.settings.health} error={error}>
      {isReady !== undefined && (
        <p className="state settings-health" data-state={isReady ? "succeeded" : "failed"}>
          <Icon name={isReady ? "check" : "cross"} />
          {isReady ? t.settings.ready : t.settings.notReady}
        </p>
      )}
    </Part>
  );
}

function Usage() {
  const user = useChosenUser();
  const { data, error } = useQuery({
    queryKey: ["usage", user?.name],
    queryFn: () => read(api.GET("/api/v1/usage", { params: { query: user ? { user: user.name } : {} } })),
    enabled: user !== undefined && user.name !== "",
    retry: false,
  });
  return (
    <Part title={t.settings.usage} error={error}>
      {user && <UserField user={user} />}
      <table className="table number">
        <TableHead columns={[t.settings.quota, t.settings.used, t.settings.limit]} />
        <tbody>
          {data?.quotas.map((quota) => (
            <tr key={quota.name}>
              <td title={quota.name}>{t.settings.quotas[quota.name] ?? quota.name}</td>
              <td>{quota.used == null ? t.settings.notCounted : formatAmount(quota.used, quota.unit)}</td>
              <td>{quota.limit == null ? t.settings.unlimited : formatAmount(quota.limit, quota.unit)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Part>
  );
}

function Audit() {
  const { data, error } = useQuery({
    queryKey: ["audit"],
    queryFn: () => read(api.GET("/api/v1/audit", { params: { query: { limit: 50 } } })),
  });
  return (
    <Part title={t.settings.audit} error={error}>
      {data?.items.length === 0 && <p className="soft">{t.settings.noAudit}</p>}
      {data && data.items.length > 0 && (
        <table className="table">
          <TableHead
            columns={[
              t.settings.when,
              t.settings.who,
              t.settings.action,
              t.settings.object,
              t.settings.result,
            ]}
          />
          <tbody>
            {data.items.map((entry) => (
              <tr key={entry.number}>
                <td className="number settings-time">{formatTime(entry.at)}</td>
                <td>{entry.by.key_name ?? entry.by.user ?? t.settings.operator}</td>
                <td>
                  {entry.action}
                  <small className="faint settings-detail">{describeCommand(entry.detail)}</small>
                </td>
                <td>
                  <AuditObject name={entry.object} />
                </td>
                <td>{entry.result}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Part>
  );
}

/** The command that was sent to a run: what it does, and the step that it is about. */
function describeCommand(detail: unknown): string {
  const { command, path, how } = (detail ?? {}) as { [field: string]: unknown };
  return [command, path, how].filter((part) => typeof part === "string").join(" ");
}

/** What an entry of the audit log is about; a run can be opened. */
function AuditObject({ name }: { name: string }) {
  const run = name.match(/^run (\S+)$/)?.[1];
  if (run === undefined) return name;
  return (
    <Link to="/runs/$run" params={{ run }} className="mono">
      {name}
    </Link>
  );
}
