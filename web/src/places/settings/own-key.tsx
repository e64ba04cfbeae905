// The key of this tab: what it permits, and how to use another one.
import { useQuery } from "@tanstack/react-query";
import { callerQuery } from "../../api/caller";
import { changeKey, storeKey } from "../../api/key";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { Part } from "./part";

export function OwnKey() {
  const { data, error } = useQuery(callerQuery);
  return (
    <Part title={t.key.ofTab} error={error}>
      {data?.key == null ? (
        data && <p className="soft">{t.key.none}</p>
      ) : (
        <>
          <p>
            {t.key.named(data.key)} {describeScopes(data.scopes)}.
          </p>
          <div className="settings-actions">
            <Button onClick={() => changeKey(true)}>{t.key.change}</Button>
            <Button look="quiet" onClick={() => storeKey(null)}>
              {t.key.forget}
            </Button>
          </div>
        </>
      )}
    </Part>
  );
}

/** What scopes permit; `admin` includes the others. */
function describeScopes(scopes: string[]): string {
  const shown = scopes.includes("admin") ? ["admin"] : scopes;
  return shown.map((scope) => t.key.scopes[scope] ?? scope).join(", ");
}
