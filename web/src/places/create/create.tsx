// Creates a pipeline from plain language: the goal, at most three questions, then the stages as they happen.

import { useMutation } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { type KeyboardEvent, useEffect, useRef } from "react";
import { useMay } from "../../api/caller";
import { api, read } from "../../api/client";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { useKept } from "../../ui/kept";
import { NoModel } from "../../ui/no-model";
import { ErrorBox } from "../../ui/problem";
import { useTitle } from "../../ui/title";
import { Building } from "./building";
import { startPlanner } from "./start";
import "./create.css";

export function Create() {
  useTitle(t.places.create);
  const { run } = useSearch({ from: "/create" });
  return <div className="page">{run ? <Building key={run} run={run} /> : <Goal />}</div>;
}

type Message = { role: "user" | "assistant"; content: string };
type Clarified = { ready: boolean; refined_intent: string | null; question: string | null };

/** The dialogue about the goal, and the requests that ask further or start the planner. */
function useGoal() {
  const navigate = useNavigate({ from: "/create" });
  const [text, setText, forgetText] = useKept("create text", () => "");
  const [said, setSaid, forgetSaid] = useKept<Message[]>("create said", () => []);
  const start = useMutation({
    mutationFn: startPlanner,
    onSuccess: (run) => {
      forgetText();
      forgetSaid();
      void navigate({ search: { run } });
    },
  });
  const clarify = useMutation({
    mutationFn: async (message: string) => {
      const body = { message, history: said as never };
      const answer = await read(api.POST("/api/clarify", { body }));
      return answer as unknown as Clarified;
    },
    onSuccess: (answer, message) => {
      if (answer.refined_intent) {
        start.mutate(answer.refined_intent);
        return;
      }
      const asked = answer.question || t.create.openQuestion;
      setSaid([...said, { role: "user", content: message }, { role: "assistant", content: asked }]);
      setText("");
    },
  });
  const isBusy = clarify.isPending || start.isPending;
  return {
    text,
    setText,
    said,
    isBusy,
    error: start.error ?? clarify.error,
    send: () => text.trim() !== "" && !isBusy && clarify.mutate(text),
    skip: () => start.mutate(joinGoal(said, text)),
  };
}

/** The goal, and the questions about it. */
function Goal() {
  const { text, setText, said, isBusy, error, send, skip } = useGoal();
  const mayCreate = useMay("write");
  const question = said.at(-1)?.role === "assistant" ? said.at(-1)?.content : undefined;
  const field = useRef<HTMLTextAreaElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each question has a field of its own.
  useEffect(() => field.current?.focus(), [said.length]);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send();
  };
  return (
    <form
      className="create-goal"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
      onKeyDown={onKeyDown}
    >
      <header>
        <h1>{t.create.title}</h1>
        <p className="soft">{t.create.help}</p>
      </header>
      <Conversation said={said} />
      <label className="field">
        <span>{question === undefined ? t.create.goal : t.create.questionOf(said.length / 2)}</span>
        <textarea
          key={said.length}
          ref={field}
          className="input create-input"
          rows={question === undefined ? 4 : 2}
          placeholder={question === undefined ? t.create.placeholder : t.create.answer}
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
      </label>
      <GoalActions
        isFirst={question === undefined}
        canSkip={said.length > 0}
        canSend={!isBusy && mayCreate && text.trim() !== ""}
        isBusy={isBusy}
        onSkip={skip}
      />
      <NoModel />
      {!mayCreate && <p className="soft">{t.key.noWrite}</p>}
      {error && <ErrorBox error={error} />}
      {said.length === 0 && <Examples onChoose={setText} />}
    </form>
  );
}

function Conversation({ said }: { said: Message[] }) {
  if (said.length === 0) return null;
  return (
    <ol className="create-said" aria-label={t.create.question}>
      {said.map((message, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: messages are only added at the end.
        <li key={at} data-who={message.role}>
          {message.content}
        </li>
      ))}
    </ol>
  );
}

type GoalActionsProps = {
  isFirst: boolean;
  canSkip: boolean;
  canSend: boolean;
  isBusy: boolean;
  onSkip: () => void;
};

function GoalActions({ isFirst, canSkip, canSend, isBusy, onSkip }: GoalActionsProps) {
  return (
    <div className="create-actions">
      <button type="submit" className="button" data-look="main" disabled={!canSend}>
        {isFirst ? t.create.start : t.create.next}
      </button>
      {canSkip && (
        <Button disabled={isBusy} onClick={onSkip}>
          {t.create.skip}
        </Button>
      )}
      {isBusy && (
        <span className="soft" role="status">
          {t.create.thinking}
        </span>
      )}
    </div>
  );
}

/** Goals to begin with. */
function Examples({ onChoose }: { onChoose: (example: string) => void }) {
  return (
    <ul className="create-examples">
      {t.create.examples.map((example) => (
        <li key={example}>
          <button type="button" className="text-button" onClick={() => onChoose(example)}>
            {example}
          </button>
        </li>
      ))}
    </ul>
  );
}

/** The goal with the answers so far. */
function joinGoal(said: Message[], text: string): string {
  const lines = said.map(({ content }) => content);
  return [...lines, text].filter((line) => line.trim() !== "").join("\n");
}
