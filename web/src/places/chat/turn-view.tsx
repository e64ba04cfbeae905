// One turn: the message of the person, the answers, the calls of tools, and open questions to the person.
import { Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { formatJson } from "../../api/json";
import type { RunState, StepState } from "../../run/fold";
import type { RunFollower } from "../../run/follow";
import { isFinal, type Question } from "../../run/record";
import { listEntries, type Opening, readOpening, type TurnEntry } from "../../run/turn";
import { t } from "../../strings";
import { AnswerForm, ResolveForm } from "../../ui/answer-form";
import { Button, IconButton } from "../../ui/button";
import { formatCost, formatDuration, formatNumber } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { Markdown } from "../../ui/markdown";
import { Problem } from "../../ui/problem";
import type { Schema } from "../../ui/schema-form";
import { PhaseMark, StatusMark } from "../../ui/state";
import { LongText } from "../../ui/value";
import { useFollower } from "../run/use-run";
import type { TurnFacts } from "./conversation";

type TurnProps = {
  run: string;
  speaker: string;
  isReplaced: boolean;
  /** Whether the key may not continue the conversation. */
  isReadOnly: boolean;
  isLast: boolean;
  onFacts: (run: string, facts: TurnFacts) => void;
  onEnd: () => void;
  onEdit: (facts: TurnFacts) => void;
  onRetry: (facts: TurnFacts) => void;
  /** Called with whether the turn waits for an approval. */
  onApproval: (isOpen: boolean) => void;
};

export function TurnView(props: TurnProps) {
  const follower = useFollower(props.run);
  const { run, isLast, onFacts, onEnd } = props;
  const length = follower?.history.length ?? 0;
  const state = follower && length > 0 ? follower.history.shownAt(length) : undefined;
  const said = readOpening(state?.created?.inputs);
  const isKnown = state?.created !== undefined;
  const status = state?.status;
  useEffect(() => {
    if (isKnown) onFacts(run, { earlier: said.earlier, text: said.text });
  }, [isKnown, run, onFacts, said.earlier, said.text]);
  useEffect(() => {
    if (isLast && status !== undefined && (isFinal(status) || status === "waiting")) onEnd();
  }, [isLast, status, onEnd]);
  const waitsForApproval = isLast && (state?.steps.some(isOpenApproval) ?? false);
  const { onApproval } = props;
  useEffect(() => {
    if (isLast) onApproval(waitsForApproval);
  }, [isLast, waitsForApproval, onApproval]);
  if (!follower || !state) return <p className="soft">{t.loading}</p>;
  const content = <TurnContent {...props} follower={follower} state={state} said={said} />;
  if (!props.isReplaced) return content;
  return (
    <details className="chat-replaced">
      <summary className="faint cut">{t.chat.replaced(shorten(said.text))}</summary>
      {content}
    </details>
  );
}

type ContentProps = TurnProps & {
  follower: RunFollower;
  state: RunState;
  said: Opening;
};

function TurnContent(props: ContentProps) {
  const { follower, state, said, speaker, isReplaced, isReadOnly, onEdit, onRetry } = props;
  const entries = listEntries(state);
  const isEnded = isFinal(state.status);
  const isStopped = state.status === "cancelled";
  const hasAnswer = entries.some((entry) => entry.kind === "said" && entry.text);
  const isThinking = !isEnded && state.status !== "waiting" && state.status !== "uncertain";
  return (
    <article className="chat-turn">
      <div className="chat-said" data-who="person">
        <header>
          <h3>{t.chat.you}</h3>
          {!isReplaced && !isReadOnly && said.files.length === 0 && (
            <IconButton icon="edit" label={t.chat.edit} onClick={() => onEdit(said)} />
          )}
        </header>
        <LongText text={said.text} />
        {said.files.map(({ name, picture }) =>
          picture ? (
            <img key={name} src={picture} alt={name} className="chat-picture" />
          ) : (
            <span key={name} className="badge">
              <Icon name="attach" />
              {name}
            </span>
          ),
        )}
      </div>
      {entries.map((entry, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: entries of a turn are only added at the end.
        <Entry key={at} entry={entry} follower={follower} speaker={speaker} />
      ))}
      {isThinking && !entries.some(isArriving) && <p className="faint">{t.chat.working}</p>}
      {state.error && !isStopped && <Problem code={state.error.code}>{state.error.message}</Problem>}
      {isEnded && !state.error && !hasAnswer && !isStopped && <p className="faint">{t.chat.failed}</p>}
      <TurnFoot state={state} run={follower.run}>
        {isEnded && !isReplaced && !isReadOnly && said.files.length === 0 && (
          <Button look="quiet" icon="undo" onClick={() => onRetry(said)}>
            {t.chat.retry}
          </Button>
        )}
      </TurnFoot>
    </article>
  );
}

function isArriving(entry: TurnEntry): boolean {
  return entry.kind === "said" && entry.text === undefined;
}

function TurnFoot({ state, run, children }: { state: RunState; run: string; children: React.ReactNode }) {
  const { usage } = state;
  const ms = (state.finishedAt ?? state.at) - state.createdAt;
  return (
    <footer className="chat-foot faint">
      {state.status === "cancelled" && <span>{t.chat.stopped}</span>}
      {state.status !== "succeeded" && state.status !== "cancelled" && <StatusMark status={state.status} />}
      {isFinal(state.status) && (
        <span className="number">
          {formatDuration(ms)} · {formatNumber(usage.input_tokens + usage.output_tokens)}{" "}
          {t.run.tokens.toLowerCase()}
          {usage.micro_usd ? ` · ${formatCost(usage.micro_usd)}` : ""}
        </span>
      )}
      <Link to="/runs/$run" params={{ run }} className="button" data-look="quiet" title={t.chat.openRun}>
        {t.chat.run}
      </Link>
      {children}
    </footer>
  );
}

type EntryProps = { entry: TurnEntry; follower: RunFollower; speaker: string };

function Entry({ entry, follower, speaker }: EntryProps) {
  const onDone = () => follower.refresh();
  switch (entry.kind) {
    case "said": {
      const { step } = entry;
      const text = entry.text ?? follower.history.textAt(step.path, step.attempts, follower.history.length);
      if (text === undefined || text === "") return null;
      return (
        <div className="chat-said" data-who="model">
          <h3>{entry.speaker || speaker}</h3>
          <Markdown text={text} />
        </div>
      );
    }
    case "routed":
      return (
        <p className="chat-route faint">
          <Icon name="right" />
          {entry.speaker} {entry.to === undefined ? t.chat.ends : t.chat.routes(entry.to)}
        </p>
      );
    case "called":
      return <ToolCard entry={entry} />;
    case "uncertain":
      return <ResolveForm run={follower.run} path={entry.step.path} onDone={onDone} />;
    case "asked": {
      const { step } = entry;
      if (step.question && isAnsweredByMessage(step.path, step.question)) {
        return <p className="answer answer-question">{step.question.question}</p>;
      }
      if (step.question) {
        return <AnswerForm run={follower.run} path={step.path} question={step.question} onDone={onDone} />;
      }
      if (step.output === undefined) return null;
      return (
        <div className="chat-said" data-who="person">
          <h3>{t.chat.you}</h3>
          <p className="faint">{step.target}</p>
          <LongText text={describeAnswer(step)} />
        </div>
      );
    }
  }
}

/** So much of a message that was replaced is shown. */
const MAX_SHOWN_LETTERS = 60;

function shorten(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > MAX_SHOWN_LETTERS ? `${line.slice(0, MAX_SHOWN_LETTERS)}…` : line;
}

/** An answer as the person gave it: an approval has two buttons. */
function describeAnswer({ output }: StepState): string {
  if (output === true) return t.chat.approved;
  if (output === false) return t.chat.rejected;
  return typeof output === "string" ? output : formatJson(output);
}

function isOpenApproval({ question }: StepState): boolean {
  return (question?.schema as Schema | undefined)?.type === "boolean";
}

/**
 * Whether the next message answers the question: an approval, a form and a call of a client's tool have fields of their
 * own.
 */
function isAnsweredByMessage(path: string, { subject, schema }: Question): boolean {
  const type = (schema as Schema | undefined)?.type;
  const isCall = path.slice(path.lastIndexOf("/") + 1).startsWith("tool~");
  return !isCall && subject === undefined && (schema === undefined || type === "string");
}

/** A call of a tool: its arguments, and its result once there is one. */
function ToolCard({ entry }: { entry: Extract<TurnEntry, { kind: "called" }> }) {
  const { step } = entry;
  const [isOpen, setIsOpen] = useState(false);
  const result = step?.error && step.phase !== "finished" ? step.error.message : step?.output;
  return (
    <div className="chat-call">
      <button
        type="button"
        className="chat-call-head"
        aria-expanded={isOpen}
        onClick={() => setIsOpen(!isOpen)}
      >
        <Icon name="tool" />
        <span className="mono cut">{entry.name}</span>
        {step && <PhaseMark phase={step.phase} />}
      </button>
      {isOpen && (
        <div className="chat-call-body">
          <h4>{t.chat.arguments}</h4>
          <LongText text={formatJson(entry.arguments)} isCode />
          {result !== undefined && (
            <>
              <h4>{t.chat.result}</h4>
              <LongText text={typeof result === "string" ? result : formatJson(result)} isCode />
            </>
          )}
        </div>
      )}
    </div>
  );
}
