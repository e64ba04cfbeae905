// Answers what a run waits for: a question, an approval, or the decision about an uncertain effect.

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type KeyboardEvent, useMemo, useState } from "react";
import { useMay } from "../api/caller";
import { ApiError, api, read } from "../api/client";
import { type Json, parseJson } from "../api/json";
import { runQuery, stepQuery } from "../api/queries";
import { findTurn, readApproval } from "../run/approval";
import type { Question } from "../run/record";
import { t } from "../strings";
import { showDirections } from "./bidi";
import { Button } from "./button";
import { ConfirmDialog } from "./dialog";
import { formatTime } from "./format";
import { useKept } from "./kept";
import { ErrorBox, Problem } from "./problem";
import { SchemaFields } from "./schema-fields";
import { listFields, readComplete, type Schema, startEntries } from "./schema-form";
import { useInvalidEntry } from "./use-invalid-entry";
import { ValueView } from "./value";

type AnswerProps = {
  run: string;
  path: string;
  question: Question;
  /** Called when what waits may have changed. */
  onDone: () => void;
  /** Called when the answer was accepted. */
  onSent?: () => void;
  /** Why it can no longer be answered; the entry stays. */
  closed?: string | undefined;
};

/** Whether a question is answered with yes or no, and so with buttons. */
export function isApproval({ schema }: Question): boolean {
  return (schema as Schema | undefined)?.type === "boolean";
}

/** Why an answer that is stored was not applied yet; undefined if none is. The events of the run cannot say that. */
function useStoredAnswer(run: string, path: string): string | undefined {
  const { data } = useQuery(runQuery(run));
  const step = data?.steps?.find((one) => one.path === path);
  return step?.phase === "waiting" && !step.question ? (data?.interruption ?? undefined) : undefined;
}

export function AnswerForm({ run, path, question, onDone, onSent, ...props }: AnswerProps) {
  const stored = useStoredAnswer(run, path);
  const mayAnswer = useMay("run");
  const closed = props.closed ?? stored ?? (mayAnswer ? undefined : t.answer.notPermitted);
  const schema = question.schema as Schema | undefined;
  const fields = useMemo(() => listFields(schema), [schema]);
  const [entries, setEntries, forget] = useKept(`answer ${run} ${path}`, () => startEntries(fields));
  const { invalid, change, attempt } = useInvalidEntry(setEntries);
  const { subject } = question;
  const answer = useSend(onDone, async (value: Json) => {
    const body = { value: value as never, path, ...(subject && { subject }) };
    await read(api.POST("/api/v1/runs/{id}/answer", { params: { path: { id: run } }, body }));
    forget();
    onSent?.();
  });
  const isBlocked = answer.isPending || closed !== undefined;
  const send = () => {
    if (isBlocked) return;
    attempt(() => answer.mutate(readComplete(fields, entries)));
  };
  const isChoice = isApproval(question);
  const hasFields = closed === undefined || fields.some((field) => entries[field.name] !== field.start);
  return (
    <form
      className="answer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
      onKeyDown={(event) => isSubmitKey(event) && !isChoice && event.currentTarget.requestSubmit()}
    >
      <QuestionText run={run} path={path} text={question.question} />
      {question.expires_at !== undefined && (
        <p className="soft">{t.answer.expires(formatTime(question.expires_at))}</p>
      )}
      {isChoice ? (
        <div className="answer-choices">
          <Button look="main" icon="check" disabled={isBlocked} onClick={() => answer.mutate(true)}>
            {t.answer.approve}
          </Button>
          <Button look="danger" icon="cross" disabled={isBlocked} onClick={() => answer.mutate(false)}>
            {t.answer.reject}
          </Button>
        </div>
      ) : (
        hasFields && (
          <>
            <SchemaFields fields={fields} entries={entries} onChange={change} invalid={invalid} />
            <div className="answer-choices">
              <button type="submit" className="button" data-look="main" disabled={isBlocked}>
                {t.answer.send}
              </button>
            </div>
          </>
        )
      )}
      {closed !== undefined && <Problem severity="warning">{closed}</Problem>}
      {answer.error && <ErrorBox error={answer.error} />}
    </form>
  );
}

type QuestionProps = { run: string; path: string; text: string };

/** The first line asks; what follows is what the question is about. An approval shows the call. */
function QuestionText({ run, path, text }: QuestionProps) {
  const approval = useMemo(() => readApproval(text), [text]);
  const [first = "", ...rest] = showDirections(text).trim().split("\n");
  if (approval) {
    return (
      <>
        <p className="answer-question">{showDirections(t.answer.allow(approval.tool))}</p>
        <ToolAbout run={run} path={path} tool={approval.tool} />
        <ValueView value={approval.arguments} label={t.answer.arguments} asFields />
      </>
    );
  }
  return (
    <>
      <p className="answer-question">{first}</p>
      {rest.length > 0 && <p className="answer-about">{rest.join("\n").trim()}</p>}
    </>
  );
}

type ToolAboutProps = { run: string; path: string; tool: string };
type ToolInfo = { name: string; description?: string };

/** The description of the tool that the model received. */
function ToolAbout({ run, path, tool }: ToolAboutProps) {
  const { data } = useQuery(stepQuery(run, { path: findTurn(path) }));
  const requests = data?.requests ?? [];
  const tools = requests.flatMap(({ request }) => (request.tools ?? []) as ToolInfo[]);
  const about = tools.find(({ name }) => name === tool)?.description;
  return about ? <p className="soft answer-about">{about}</p> : null;
}

function isSubmitKey(event: KeyboardEvent): boolean {
  return event.key === "Enter" && (event.ctrlKey || event.metaKey);
}

type ResolveProps = { run: string; path: string; onDone: () => void; onSent?: () => void };

type Decision = { how: "resend" | "fail" } | { how: "value"; value: Json };

export function ResolveForm({ run, path, onDone, onSent }: ResolveProps) {
  const [text, setText, forget] = useKept(`resolve ${run} ${path}`, () => "");
  const [isInvalid, setIsInvalid] = useState(false);
  const [isResending, setIsResending] = useState(false);
  const mayDecide = useMay("run");
  const resolve = useSend(onDone, async (decision: Decision) => {
    const body = { path, ...decision } as never;
    await read(api.POST("/api/v1/runs/{id}/resolve", { params: { path: { id: run } }, body }));
    forget();
    onSent?.();
  });
  const giveValue = () => {
    try {
      resolve.mutate({ how: "value", value: parseJson(text) });
      setIsInvalid(false);
    } catch {
      setIsInvalid(true);
    }
  };
  if (!mayDecide) return <Problem severity="warning">{t.answer.notPermitted}</Problem>;
  return (
    <div className="answer">
      <p className="answer-question">{t.answer.uncertainTitle}</p>
      <p className="soft">{t.answer.uncertainHelp}</p>
      <div className="answer-option">
        <Button onClick={() => setIsResending(true)} disabled={resolve.isPending}>
          {t.answer.resend}
        </Button>
        <span className="soft">{t.answer.resendHelp}</span>
      </div>
      <div className="answer-option">
        <Button onClick={() => resolve.mutate({ how: "fail" })} disabled={resolve.isPending}>
          {t.answer.fail}
        </Button>
        <span className="soft">{t.answer.failHelp}</span>
      </div>
      <label className="field">
        <span>{t.answer.give}</span>
        <textarea
          className="input mono"
          rows={3}
          value={text}
          onChange={(event) => setText(event.target.value)}
          spellCheck={false}
        />
        <small>{t.answer.giveHelp}</small>
      </label>
      <div className="answer-choices">
        <Button onClick={giveValue} disabled={resolve.isPending || text.trim() === ""}>
          {t.answer.useResult}
        </Button>
      </div>
      {isResending && (
        <ConfirmDialog
          title={t.answer.resendTitle}
          help={t.answer.resendWarning}
          confirm={t.answer.resend}
          onConfirm={() => resolve.mutate({ how: "resend" })}
          onClose={() => setIsResending(false)}
        />
      )}
      {isInvalid && <Problem>{t.answer.invalid}</Problem>}
      {resolve.error && <ErrorBox error={resolve.error} />}
    </div>
  );
}

/** Sends a command to a run. If another one was faster, what waits is read again. */
function useSend<Input>(onDone: () => void, send: (input: Input) => Promise<unknown>) {
  const queries = useQueryClient();
  const finish = () => {
    onDone();
    void queries.invalidateQueries({ queryKey: ["runs"] });
  };
  return useMutation({
    mutationFn: send,
    onSuccess: finish,
    onError: (error) => error instanceof ApiError && error.status === 409 && finish(),
  });
}
