// The names of secrets and where they may go. Their values stay in the environment of the server.
import { useQuery } from "@tanstack/react-query";
import { callerQuery } from "../../api/caller";
import { api, read } from "../../api/client";
import { t } from "../../strings";
import { Icon } from "../../ui/icon";
import { TableHead } from "../../ui/table-head";
import { Part } from "./part";

export function Secrets() {
  const { data: caller } = useQuery(callerQuery);
  const { data, error } = useQuery({
    queryKey: ["secrets"],
    queryFn: () => read(api.GET("/api/v1/secrets")),
    retry: false,
  });
  return (
    <Part title={t.settings.secrets} error={error}>
      {data?.items.length === 0 && (
        <p className="soft">{caller?.user ? t.settings.noSecretsForUser : t.settings.noSecrets}</p>
      )}
      {data && data.items.length > 0 && (
        <table className="table">
          <TableHead
            columns={[
              t.settings.secretName,
              t.settings.isSet,
              t.settings.hosts,
              t.settings.users,
              t.settings.workflows,
            ]}
          />
          <tbody>
            {data.items.map((secret) => (
              <tr key={secret.name}>
                <td className="mono">{secret.name}</td>
                <td>
                  <span className="state" data-state={secret.is_set ? "succeeded" : "waiting"}>
                    <Icon name={secret.is_set ? "check" : "warn"} />
                    {secret.is_set ? t.settings.set : t.settings.notSet}
                  </span>
                </td>
                <td>{secret.hosts.join(", ") || t.settings.anyHost}</td>
                <td>{secret.users.join(", ") || t.settings.operator}</td>
                <td>{secret.workflows.join(", ") || t.settings.anyWorkflow}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Part>
  );
}
