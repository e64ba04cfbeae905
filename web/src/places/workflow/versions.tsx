// Earlier versions of a workflow, compared with the editor, and restored into it.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, read, type Schemas } from "../../api/client";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { DiffView } from "../../ui/diff-view";
import { formatShortTime, formatTime } from "../../ui/format";
import { ErrorBox } from "../../ui/problem";
import { writeSide } from "../compare/side";
import { type Source, toReadable } from "./use-draft";

type VersionsProps = {
  workflow: Schemas["WorkflowInfo"];
  source: Source;
  onRestore: (source: Source, version: number) => void;
  onClose: () => void;
};

export function VersionsDialog({ workflow, source, onRestore, onClose }: VersionsProps) {
  const { id } = workflow;
  const [selected, setSelected] = useState<number>();
  const versions = useQuery({
    queryKey: ["workflows", id, "versions"],
    queryFn: () => read(api.GET("/api/v1/workflows/{id}/versions", { params: { path: { id } } })),
  });
  // The version before the present one is what people look for.
  const chosen = selected ?? versions.data?.items[1]?.version;
  const version = useQuery({
    queryKey: ["workflows", id, "source", chosen],
    enabled: chosen !== undefined,
    queryFn: async () => {
      const query = { version: chosen as number };
      return (await read(
        api.GET("/api/v1/workflows/{id}/source", { params: { path: { id }, query } }),
      )) as Source;
    },
  });
  return (
    <Dialog label={t.workflow.versions} onClose={onClose} className="versions">
      <div className="dialog-body">
        <h2>{t.workflow.versions}</h2>
        {versions.error && <ErrorBox error={versions.error} />}
        <div className="versions-panes">
          <ul>
            {versions.data?.items.map((item) => (
              <li key={item.version}>
                <button
                  type="button"
                  className="nav-link"
                  aria-pressed={item.version === chosen}
                  onClick={() => setSelected(item.version)}
                >
                  {t.workflow.version(item.version)}
                  {item.version === workflow.version && <span className="badge">{t.workflow.current}</span>}
                  <span className="faint number" title={formatTime(item.created_at)}>
                    {formatShortTime(item.created_at)}
                  </span>
                </button>
              </li>
            ))}
          </ul>
          {version.data && <DiffView before={toReadable(version.data)} after={toReadable(source)} />}
        </div>
        <div className="dialog-actions">
          {chosen !== undefined && (
            <Link
              to="/compare"
              search={{ a: writeSide({ workflow: id, version: chosen }), b: id }}
              className="button"
              data-look="quiet"
            >
              {t.versionDiff.link}
            </Link>
          )}
          <Button onClick={onClose}>{t.close}</Button>
          <Button
            look="main"
            disabled={!version.data}
            onClick={() => version.data && chosen !== undefined && onRestore(version.data, chosen)}
          >
            {t.workflow.restore}
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
