// Forks a run at a step: what happened before is reused, the rest is performed again.
import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useId, useState } from "react";
import { api, read } from "../../api/client";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { ErrorBox } from "../../ui/problem";

type ForkProps = {
  run: string;
  path: string;
  /** Whether the step sends a text that can be changed. */
  hasPrompt: boolean;
  onClose: () => void;
};

export function ForkDialog({ run, path, hasPrompt, onClose }: ForkProps) {
  const navigate = useNavigate();
  const id = useId();
  const [prompt, setPrompt] = useState("");
  const [repeats, setRepeats] = useState(false);
  const fork = useMutation({
    mutationFn: () => {
      const edits = prompt.trim() === "" ? [] : [{ path, field: "prompt", text: prompt }];
      const body = { at: path, edits, repeat_effects: repeats };
      return read(api.POST("/api/v1/runs/{id}/fork", { params: { path: { id: run } }, body }));
    },
    onSuccess: (started) => {
      onClose();
      void navigate({ to: "/runs/$run", params: { run: started.run_id } });
    },
  });
  return (
    <Dialog label={t.fork.title} onClose={onClose}>
      <form
        className="dialog-body"
        onSubmit={(event) => {
          event.preventDefault();
          fork.mutate();
        }}
      >
        <h2>{t.fork.title}</h2>
        <p className="soft">{t.fork.help(path)}</p>
        {hasPrompt && (
          <div className="field">
            <label htmlFor={`${id}-prompt`}>{t.fork.prompt}</label>
            <textarea
              id={`${id}-prompt`}
              className="input"
              rows={4}
              value={prompt}
              placeholder={t.fork.unchanged}
              onChange={(event) => setPrompt(event.target.value)}
            />
          </div>
        )}
        <label className="fork-repeat">
          <input type="checkbox" checked={repeats} onChange={(event) => setRepeats(event.target.checked)} />
          <span>{t.fork.repeats}</span>
        </label>
        {fork.error && <ErrorBox error={fork.error} />}
        <div className="dialog-actions">
          <Button onClick={onClose}>{t.cancel}</Button>
          <Button look="main" icon="branch" type="submit" disabled={fork.isPending}>
            {t.fork.start}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
