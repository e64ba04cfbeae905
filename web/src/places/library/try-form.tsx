// A trial of a part with inputs from a form: its run, its output, and what went wrong.
import { Link } from "@tanstack/react-router";
import { type ReactNode, useMemo, useState } from "react";
import type { Json } from "../../api/json";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { ErrorBox, Problem } from "../../ui/problem";
import { SchemaFields } from "../../ui/schema-fields";
import { listFields, readEntries, type Schema, startEntries } from "../../ui/schema-form";
import { ValueView } from "../../ui/value";

/** What a trial has led to. */
export type Trial = { run: string; output?: Json | undefined; error?: Json | undefined };

type TryFormProps = {
  help: string;
  schema: Schema | undefined;
  start: (inputs: Json) => void;
  isRunning: boolean;
  trial: Trial | undefined;
  failure: Error | null;
  children?: ReactNode;
};

export function TryForm({ help, schema, start, isRunning, trial, failure, children }: TryFormProps) {
  const fields = useMemo(() => listFieldsOf(schema), [schema]);
  const [entries, setEntries] = useState(() => startEntries(fields));
  const [problem, setProblem] = useState<string>();
  const send = () => {
    try {
      start(fields.length === 0 ? {} : readEntries(fields, entries));
      setProblem(undefined);
    } catch (error) {
      setProblem(error instanceof Error ? error.message : t.answer.invalid);
    }
  };
  return (
    <section className="library-section panel library-try" aria-label={t.library.try}>
      <h3>{t.library.try}</h3>
      <p className="soft">{help}</p>
      <SchemaFields fields={fields} entries={entries} onChange={setEntries} />
      <div className="library-actions">
        <Button icon="play" disabled={isRunning} onClick={send}>
          {isRunning ? t.library.trying : t.workflow.run}
        </Button>
        {trial && (
          <Link to="/runs/$run" params={{ run: trial.run }} className="button" data-look="quiet">
            {t.inbox.open}
          </Link>
        )}
        {children}
      </div>
      {problem && <Problem>{problem}</Problem>}
      {failure && <ErrorBox error={failure} />}
      {trial?.output !== undefined && <ValueView value={trial.output} label={t.run.output} />}
      {trial?.error !== undefined && <ValueView value={trial.error} label={t.run.error} />}
    </section>
  );
}

/** A field for each input; one for all of them, as JSON, if a schema does not list them. */
function listFieldsOf(schema: Schema | undefined) {
  if (schema?.properties && Object.keys(schema.properties).length === 0) return [];
  return listFields(
    schema?.properties
      ? { ...schema, type: "object" }
      : { type: "object", title: t.library.arguments, default: {} },
  );
}
