// Reports that no model can be used, and the remedy, before a run that needs one is started.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Schemas } from "../api/client";
import { findModelProblem } from "../api/models";
import { modelsQuery } from "../api/queries";
import { t } from "../strings";
import { Problem } from "./problem";

type Models = Pick<Schemas["ModelList"], "default" | "files" | "providers">;

/** Whether a model can be used, as far as is known: one with a key, one of this machine, or one that answers nearby. */
export function hasUsableModel(models: Models): boolean {
  const { default: chosen, files, providers } = models;
  // What the operator chose counts, unless something is known against it: not every server nearby lists its models.
  if (chosen != null && !chosen.startsWith("local:") && !findModelProblem(chosen, models)) return true;
  if (files.some(({ problem }) => problem == null)) return true;
  return providers.some(({ problem, probed, models, key_env }) => {
    if (problem != null) return false;
    return probed ? (models?.length ?? 0) > 0 : key_env != null;
  });
}

/** Whether a model can be used; undefined until that is known. */
export function useHasModel(): boolean | undefined {
  const { data } = useQuery({ ...modelsQuery, retry: false });
  return data && hasUsableModel(data);
}

export function NoModel() {
  if (useHasModel() !== false) return null;
  return (
    <Problem severity="warning">
      <p>
        <b>{t.noModel.title}</b> {t.noModel.help}
      </p>
      <ul>
        {t.noModel.ways.map((way) => (
          <li key={way}>{way}</li>
        ))}
      </ul>
      <Link to="/settings" hash="models">
        {t.noModel.open}
      </Link>
    </Problem>
  );
}
