// Runs a block alone with inputs from a form: as a pipeline of one node, so it is an ordinary run.
import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { api, read } from "../../api/client";
import type { Json } from "../../api/json";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { ErrorBox, Problem } from "../../ui/problem";
import { listFields, readEntries, type Schema, SchemaFields, startEntries } from "../../ui/schema-form";
import { ValueView } from "../../ui/value";
import type { Part } from "./entries";

type Result = { run_id: string; status: string; results?: { [node: string]: Json }; errors?: Json };

/** The id of the node; its pipeline has no other. */
const NODE = "block";

export function TryBlock({ part }: { part: Part }) {
  const schema = (part.definition as { input_schema?: Schema }).input_schema;
  const fields = useMemo(() => (schema?.properties ? listFields(schema) : []), [schema]);
  const [entries, setEntries] = useState(() => startEntries(fields));
  const [problem, setProblem] = useState<string>();
  const run = useMutation({
    mutationFn: async (inputs: Json) => {
      const node = { id: NODE, block_id: part.id, inputs };
      const pipeline = { id: `try-${part.id}`, name: part.id, nodes: [node], edges: [] };
      const answer = await read(api.POST("/api/pipeline/run", { body: { pipeline: pipeline as never } }));
      return answer as unknown as Result;
    },
  });
  const start = () => {
    try {
      run.mutate(fields.length === 0 ? {} : readEntries(fields, entries));
      setProblem(undefined);
    } catch (error) {
      setProblem(error instanceof Error ? error.message : t.answer.invalid);
    }
  };
  const { data } = run;
  const output = data?.results?.[NODE];
  return (
    <section className="library-section panel library-try" aria-label={t.library.try}>
      <h3>{t.library.try}</h3>
      <p className="soft">{t.library.tryHelp}</p>
      <SchemaFields fields={fields} entries={entries} onChange={setEntries} />
      <div className="library-actions">
        <Button icon="play" disabled={run.isPending} onClick={start}>
          {t.workflow.run}
        </Button>
        {data && (
          <Link to="/runs/$run" params={{ run: data.run_id }} className="button" data-look="quiet">
            {t.inbox.open}
          </Link>
        )}
      </div>
      {problem && <Problem>{problem}</Problem>}
      {run.error && <ErrorBox error={run.error} />}
      {output !== undefined && <ValueView value={output} label={t.run.output} />}
      {data?.errors && Object.keys(data.errors).length > 0 && (
        <ValueView value={data.errors} label={t.run.error} />
      )}
    </section>
  );
}
