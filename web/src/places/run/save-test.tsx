// Saves a run as a test: a file for the folder `tests` of the project. A test refers to the file of its definition, so a
// definition of the database is saved together with it.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, read, readExactly } from "../../api/client";
import { formatJson } from "../../api/json";
import { workflowQuery } from "../../api/queries";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { downloadText } from "../../ui/download";
import { ErrorBox } from "../../ui/problem";

type SaveTestProps = { run: string; name: string; workflow: string | undefined };

export function SaveTest({ run, name, workflow }: SaveTestProps) {
  const [isOpen, setIsOpen] = useState(false);
  const { data } = useQuery({ ...workflowQuery(workflow ?? ""), enabled: workflow !== undefined });
  const save = useSaveTest(run, name);
  const isStored = data !== undefined && data.file == null;
  return (
    <>
      <Button
        look="quiet"
        icon="check"
        disabled={save.isPending}
        onClick={() => (isStored ? setIsOpen(true) : save.mutate(undefined))}
      >
        {t.tests.save}
      </Button>
      {save.error && <ErrorBox error={save.error} />}
      {isOpen && workflow !== undefined && (
        <SaveBoth run={run} name={name} workflow={workflow} onClose={() => setIsOpen(false)} />
      )}
    </>
  );
}

/** Saves the test; with `definition`, the path of the definition as the folder `tests` sees it. */
function useSaveTest(run: string, name: string) {
  return useMutation({
    mutationFn: async (definition: string | undefined) => {
      const query = definition === undefined ? "" : `?${new URLSearchParams({ definition })}`;
      const test = await readExactly(`api/v1/runs/${encodeURIComponent(run)}/test${query}`);
      downloadText(toFileName(name), `${formatJson(test)}\n`);
    },
  });
}

type SaveBothProps = { run: string; name: string; workflow: string; onClose: () => void };

/** Saves a definition of the database and the test that refers to it. */
function SaveBoth({ run, name, workflow, onClose }: SaveBothProps) {
  const save = useSaveTest(run, name);
  const source = useQuery({
    queryKey: ["workflows", workflow, "source", "files"],
    queryFn: () => read(api.GET("/api/v1/workflows/{id}/source", { params: { path: { id: workflow } } })),
  });
  const files = Object.entries((source.data?.files ?? {}) as { [path: string]: string });
  const entry = source.data?.entry ?? "";
  return (
    <Dialog label={t.tests.save} onClose={onClose}>
      <div className="dialog-body">
        <h2>{t.tests.save}</h2>
        <p className="soft">{t.tests.storedHelp}</p>
        {source.error && <ErrorBox error={source.error} />}
        <ul className="save-test">
          {files.map(([path, text]) => (
            <li key={path}>
              <code>{path}</code>
              <Button icon="down" onClick={() => downloadText(path.split("/").at(-1) ?? path, text)}>
                {t.tests.saveDefinition}
              </Button>
            </li>
          ))}
          <li>
            <code>tests/{toFileName(name)}</code>
            <Button
              icon="down"
              disabled={save.isPending || entry === ""}
              onClick={() => save.mutate(`../${entry}`)}
            >
              {t.tests.saveFile}
            </Button>
          </li>
        </ul>
        {save.error && <ErrorBox error={save.error} />}
        <div className="dialog-actions">
          <Button onClick={onClose}>{t.close}</Button>
        </div>
      </div>
    </Dialog>
  );
}

function toFileName(name: string): string {
  const parts = name.toLowerCase().match(/[a-z0-9]+/g);
  return `${parts?.join("-") ?? "test"}.json`;
}
