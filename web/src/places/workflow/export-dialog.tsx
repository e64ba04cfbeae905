// Saves a workflow as a file: as it is, or in another format with a report of the losses.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, read } from "../../api/client";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { ErrorBox, Problem } from "../../ui/problem";
import type { Source } from "./use-draft";

type ExportDialogProps = { workflow: string; format: string; source: Source; onClose: () => void };

export function ExportDialog({ workflow, format, source, onClose }: ExportDialogProps) {
  const [to, setTo] = useState(format);
  const isSame = to === format;
  const converted = useQuery({
    queryKey: ["convert", to, source],
    enabled: !isSame,
    queryFn: () =>
      read(api.POST("/api/v1/convert", { body: { to, entry: source.entry, files: source.files } })),
  });
  const result = isSame ? undefined : converted.data;
  const text = isSame ? source.files[source.entry] : result?.text;
  const name = isSame ? source.entry : `${workflow}.${to === "markdown" ? "mdx" : "json"}`;
  const changed = result?.findings.filter((finding) => finding.fate !== "kept") ?? [];
  return (
    <Dialog label={t.build.exportTitle} onClose={onClose} className="snippets">
      <div className="dialog-body">
        <h2>{t.build.exportTitle}</h2>
        <p className="soft">{t.build.exportHelp}</p>
        <label className="field">
          <span>{t.build.exportTo}</span>
          <select className="input" value={to} onChange={(event) => setTo(event.target.value)}>
            <option value={format}>{t.build.exportSame(t.build.formats[format]?.name ?? format)}</option>
            {Object.keys(t.build.formats)
              .filter((other) => other !== format)
              .map((other) => (
                <option key={other} value={other}>
                  {t.build.formats[other]?.name ?? other}
                </option>
              ))}
          </select>
        </label>
        {converted.error && !isSame && <ErrorBox error={converted.error} />}
        {result && (
          <section aria-live="polite">
            {result.text == null ? (
              <Problem>{t.build.exportNothing}</Problem>
            ) : (
              <p>{t.build.exportKeeps(result.kept, result.differently, result.lost)}</p>
            )}
            <ul className="finding-list">
              {changed.map((finding) => (
                <li key={`${finding.start}:${finding.message}`}>
                  <span className="badge">{t.build.exportFates[finding.fate] ?? finding.fate}</span>{" "}
                  <span className="faint">{t.workflow.line(finding.line, finding.column)}</span>{" "}
                  {finding.message}
                </li>
              ))}
            </ul>
          </section>
        )}
        <div className="dialog-actions">
          <Button onClick={onClose}>{t.close}</Button>
          {isSame && Object.keys(source.files).length > 1 ? (
            Object.keys(source.files).map((file) => (
              <Button key={file} onClick={() => saveFile(file, source.files[file] ?? "")}>
                {file}
              </Button>
            ))
          ) : (
            <Button look="main" disabled={text == null} onClick={() => text != null && saveFile(name, text)}>
              {t.build.exportSave}
            </Button>
          )}
        </div>
      </div>
    </Dialog>
  );
}

/** Saves a text as a file of the viewer. */
function saveFile(path: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = path.split("/").at(-1) ?? path;
  link.click();
  URL.revokeObjectURL(address);
}
