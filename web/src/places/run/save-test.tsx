// Saves a run as a test: a file for the folder `tests` of the project.
import { useMutation } from "@tanstack/react-query";
import { readExactly } from "../../api/client";
import { formatJson } from "../../api/json";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { ErrorBox } from "../../ui/problem";

export function SaveTest({ run, name }: { run: string; name: string }) {
  const save = useMutation({
    mutationFn: async () => {
      const test = await readExactly(`api/v1/runs/${encodeURIComponent(run)}/test`);
      downloadText(`${toFileName(name)}.json`, `${formatJson(test)}\n`);
    },
  });
  return (
    <>
      <Button look="quiet" icon="check" disabled={save.isPending} onClick={() => save.mutate()}>
        {t.tests.save}
      </Button>
      {save.error && <ErrorBox error={save.error} />}
    </>
  );
}

function toFileName(name: string): string {
  const parts = name.toLowerCase().match(/[a-z0-9]+/g);
  return parts?.join("-") ?? "test";
}

/** Lets the browser save a text as a file. */
function downloadText(file: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = file;
  link.click();
  URL.revokeObjectURL(address);
}
