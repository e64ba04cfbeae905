// Saves a run as a test: in the folder tests of the project, or as a file of the browser.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { ApiError, api, read, readExactly } from "../../api/client";
import { formatJson } from "../../api/json";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { downloadText } from "../../ui/download";
import { ErrorBox } from "../../ui/problem";
import { testsQuery } from "../tests/results";

/** The code of the server's answer if there is a file with the name. */
const FILE_EXISTS = "FL1517";

type SaveProps = { run: string; name: string; workflow: string | undefined; onClose: () => void };

export function SaveTestDialog({ run, name, workflow, onClose }: SaveProps) {
  const [file, setFile] = useState(toFileName(name));
  const queries = useQueryClient();
  const path = { id: run };
  const save = useMutation({
    mutationFn: (replace: boolean) =>
      read(api.POST("/api/v1/runs/{id}/test", { params: { path }, body: { file, replace } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: testsQuery.queryKey }),
  });
  const download = useMutation({
    mutationFn: async () => {
      const test = await readExactly(`api/v1/runs/${encodeURIComponent(run)}/test`);
      downloadText(file.split("/").at(-1) || toFileName(name), `${formatJson(test)}\n`);
    },
  });
  const exists = save.error instanceof ApiError && save.error.code === FILE_EXISTS;
  return (
    <Dialog label={t.tests.save} onClose={onClose}>
      {save.isSuccess ? (
        <SavedTest file={save.data.file} workflow={workflow} onClose={onClose} />
      ) : (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            save.mutate(exists);
          }}
        >
          <h2>{t.tests.save}</h2>
          <p className="soft">{t.tests.saveHelp}</p>
          <label className="field">
            <span>{t.tests.fileName}</span>
            <input
              className="input mono"
              required
              value={file}
              onChange={(event) => {
                setFile(event.target.value);
                save.reset();
              }}
            />
          </label>
          {save.error && <ErrorBox error={save.error} />}
          {download.error && <ErrorBox error={download.error} />}
          <div className="dialog-actions">
            <Button
              icon="download"
              look="quiet"
              disabled={download.isPending}
              onClick={() => download.mutate()}
            >
              {t.tests.download}
            </Button>
            <Button onClick={onClose}>{t.cancel}</Button>
            <button
              type="submit"
              className="button"
              data-look={exists ? "danger" : "main"}
              disabled={save.isPending}
            >
              {exists ? t.tests.replaceFile : t.tests.saveFile}
            </button>
          </div>
        </form>
      )}
    </Dialog>
  );
}

type SavedProps = { file: string; workflow: string | undefined; onClose: () => void };

function SavedTest({ file, workflow, onClose }: SavedProps) {
  return (
    <div className="dialog-body">
      <h2>{t.tests.saved}</h2>
      <p className="soft">
        <code>tests/{file}</code>
      </p>
      <div className="dialog-actions">
        <Button onClick={onClose}>{t.close}</Button>
        <Link
          to="/tests"
          search={workflow === undefined ? {} : { workflow }}
          className="button"
          data-look="main"
        >
          {t.tests.open}
        </Link>
      </div>
    </div>
  );
}

export function toFileName(name: string): string {
  const parts = name.toLowerCase().match(/[a-z0-9]+/g);
  return `${parts?.join("-") ?? "test"}.json`;
}
