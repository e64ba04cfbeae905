// Models: which ones there are, and whether they can be reached.
import { useQuery } from "@tanstack/react-query";
import type { Schemas } from "../../api/client";
import { modelsQuery } from "../../api/queries";
import { t } from "../../strings";
import { formatBytes } from "../../ui/format";
import { Icon, type IconName } from "../../ui/icon";
import { TableHead } from "../../ui/table-head";
import { Part } from "./part";

type Provider = Schemas["ModelProvider"];

type ModelFile = Schemas["ModelFile"];

export function Models() {
  const { data, error } = useQuery(modelsQuery);
  return (
    <Part title={t.settings.models} error={error}>
      {data && (
        <>
          <p>
            <span className="soft">{t.settings.defaultModel}: </span>
            <code>{data.default ?? t.none}</code>
          </p>
          <LocalModels files={data.files ?? []} />
          <table className="table">
            <TableHead columns={[t.settings.provider, t.runs.status]} />
            <tbody>
              {data.providers?.map((provider) => (
                <tr key={provider.name}>
                  <td>{provider.name}</td>
                  <td>
                    <Reach
                      provider={provider}
                      isNeeded={data.default?.startsWith(`${provider.name}:`) ?? false}
                    />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </>
      )}
    </Part>
  );
}

function LocalModels({ files }: { files: ModelFile[] }) {
  if (files.length === 0) return <p className="soft">{t.settings.noLocal}</p>;
  return (
    <table className="table">
      <TableHead columns={[t.settings.local, t.settings.size]} />
      <tbody>
        {files.map((file) => (
          <tr key={file.model}>
            <td className="mono">{file.model}</td>
            <td>
              {file.problem ? (
                <Mark icon="cross" state="failed" text={file.problem} />
              ) : (
                formatBytes(file.bytes)
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/**
 * Whether a provider can be used. Only one nearby is asked; of others the key is all that is known. One that does not
 * answer is a failure only if the default model needs it.
 */
function Reach({ provider, isNeeded }: { provider: Provider; isNeeded: boolean }) {
  const { problem, probed, models, key_env } = provider;
  if (problem) return <span className="soft">{problem}</span>;
  if (probed && !models) {
    return (
      <Mark
        icon={isNeeded ? "cross" : "help"}
        state={isNeeded ? "failed" : "queued"}
        text={t.settings.noAnswer(provider.base_url ?? undefined)}
      />
    );
  }
  if (probed) return <Mark icon="check" state="succeeded" text={t.settings.serves(models ?? [])} />;
  const text = key_env ? t.settings.keySet : t.settings.notAsked;
  return <Mark icon={key_env ? "check" : "help"} state={key_env ? "succeeded" : "queued"} text={text} />;
}

function Mark({ icon, state, text }: { icon: IconName; state: string; text: string }) {
  return (
    <span className="state" data-state={state}>
      <Icon name={icon} />
      {text}
    </span>
  );
}
