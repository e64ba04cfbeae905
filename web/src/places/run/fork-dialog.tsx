// Forks a run: at a step, with another prompt or other variables; or from the beginning, with other inputs. What happened
// before is reused, the rest is performed again.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useId, useState } from "react";
import { api, readExactly, readStarted } from "../../api/client";
import { formatJson, type Json } from "../../api/json";
import { stepQuery } from "../../api/queries";
import type { StepState } from "../../run/fold";
import { changedValues, entryOf, type Values } from "../../run/values";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { ErrorBox, Problem } from "../../ui/problem";
import "./variables.css";

type ForkProps = {
  run: string;
  /** The step at which the fork begins; without one it begins at the start of the run. */
  step?: StepState | undefined;
  inputs: Json;
  onClose: () => void;
};

export function ForkDialog({ run, step, inputs, onClose }: ForkProps) {
  const values = useValues(run, step, inputs);
  const prompt = usePrompt(run, step);
  const title = step ? t.fork.title : t.fork.inputsTitle;
  const error = values.error ?? prompt.error;
  return (
    <Dialog label={title} onClose={onClose}>
      <div className="dialog-body">
        <h2>{title}</h2>
        <p className="soft">{step ? t.fork.help(step.path) : t.fork.inputsHelp}</p>
        {error && <ErrorBox error={error} />}
        {values.data && prompt.data !== undefined ? (
          <ForkForm run={run} step={step} values={values.data} prompt={prompt.data} onClose={onClose} />
        ) : (
          !error && <p className="soft">{t.loading}</p>
        )}
      </div>
    </Dialog>
  );
}

/** What can be set: the variables before the step, or the inputs by name. */
function useValues(run: string, step: StepState | undefined, inputs: Json) {
  const at = step ? Math.max(1, step.firstSeq - 1) : 1;
  return useQuery({
    queryKey: ["runs", "variables", run, at],
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: ({ signal }) => readExactly(`api/v1/runs/${encodeURIComponent(run)}/variables?at=${at}`, signal),
    select: (data) => {
      const { variables } = data as { variables: Values };
      if (step) return variables;
      if (typeof inputs === "object" && inputs !== null && !Array.isArray(inputs)) return inputs as Values;
      // An input that is no object is the value of one variable.
      const given = formatJson(inputs);
      return Object.fromEntries(
        Object.entries(variables)
          .filter(([, value]) => formatJson(value) === given)
          .slice(0, 1),
      );
    },
  });
}

/** The prompt of a step in the definition; empty if it has none. */
function usePrompt(run: string, step: StepState | undefined) {
  const hasPrompt = step?.kind === "generate";
  const { data, error } = useQuery({ ...stepQuery(run, step ?? { path: "" }), enabled: hasPrompt });
  return { data: hasPrompt ? data && (data.prompt ?? "") : "", error };
}

type FormProps = {
  run: string;
  step: StepState | undefined;
  values: Values;
  prompt: string;
  onClose: () => void;
};

function ForkForm({ run, step, values, prompt: before, onClose }: FormProps) {
  const navigate = useNavigate();
  const [prompt, setPrompt] = useState(before);
  const [entries, setEntries] = useState<{ [name: string]: string }>({});
  const [repeats, setRepeats] = useState(false);
  const [isInvalid, setIsInvalid] = useState(false);
  const fork = useMutation({
    mutationFn: (set: Values) => {
      const edits = step && prompt !== before ? [{ path: step.path, field: "prompt", text: prompt }] : [];
      const body = { edits, repeat_effects: repeats, set: set as never, ...(step && { at: step.path }) };
      return readStarted(api.POST("/api/v1/runs/{id}/fork", { params: { path: { id: run } }, body }));
    },
    onSuccess: (started) => {
      onClose();
      void navigate({ to: "/runs/$run", params: { run: started.run_id } });
    },
  });
  const send = () => {
    try {
      fork.mutate(changedValues(values, entries));
      setIsInvalid(false);
    } catch {
      setIsInvalid(true);
    }
  };
  const names = Object.keys(values);
  const fields = <ValueFields values={values} entries={entries} onChange={setEntries} />;
  return (
    <form
      className="fork-form"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      {before !== "" && <PromptField prompt={prompt} onChange={setPrompt} />}
      {step && names.length > 0 && (
        <details>
          <summary>{t.fork.variables(names.length)}</summary>
          {fields}
        </details>
      )}
      {!step && fields}
      {!step && names.length === 0 && <p className="soft">{t.workflow.noInputs}</p>}
      <label className="fork-repeat">
        <input type="checkbox" checked={repeats} onChange={(event) => setRepeats(event.target.checked)} />
        <span>{t.fork.repeats}</span>
      </label>
      {isInvalid && <Problem>{t.answer.invalid}</Problem>}
      {fork.error && <ErrorBox error={fork.error} />}
      <div className="dialog-actions">
        <Button onClick={onClose}>{t.cancel}</Button>
        <Button look="main" icon="branch" type="submit" disabled={fork.isPending}>
          {t.fork.start}
        </Button>
      </div>
    </form>
  );
}

/** The values of variables or inputs, by their names. */
type ValueFieldsProps = {
  values: Values;
  entries: { [name: string]: string };
  onChange: (entries: { [name: string]: string }) => void;
};

function ValueFields({ values, entries, onChange }: ValueFieldsProps) {
  const id = useId();
  return Object.keys(values).map((name) => (
    <div className="field" key={name}>
      <label htmlFor={`${id} ${name}`} className="mono">
        {name}
      </label>
      <textarea
        id={`${id} ${name}`}
        className="input"
        rows={2}
        value={entries[name] ?? entryOf(values[name])}
        onChange={(event) => onChange({ ...entries, [name]: event.target.value })}
      />
    </div>
  ));
}

function PromptField({ prompt, onChange }: { prompt: string; onChange: (prompt: string) => void }) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{t.fork.prompt}</label>
      <textarea
        id={id}
        className="input"
        rows={5}
        value={prompt}
        onChange={(event) => onChange(event.target.value)}
      />
    </div>
  );
}
