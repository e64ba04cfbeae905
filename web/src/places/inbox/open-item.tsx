// The open item of the inbox: everything that its run waits for.
import { Link } from "@tanstack/react-router";
import { type RefObject, useEffect, useRef, useState } from "react";
import type { Schemas } from "../../api/client";
import type { RunState } from "../../run/fold";
import type { RunFollower } from "../../run/follow";
import { nameRun } from "../../run/name";
import { t } from "../../strings";
import { AnswerForm, isApproval, ResolveForm } from "../../ui/answer-form";
import { explainClosed } from "../../ui/closed-question";
import { Icon } from "../../ui/icon";
import { isTyping, useKeys } from "../../ui/keyboard";
import { Problem } from "../../ui/problem";
import { ValueView } from "../../ui/value";
import { StepRequests } from "../run/step-requests";
import { useFollower } from "../run/use-run";
import { isEmptyInput, keepShown, keyOf, listWaiting, type Shown } from "./open";

type RunItem = Schemas["RunItem"];

type OpenItemProps = {
  run: RunItem;
  /** Whether it was opened with the keys of the list, which then stay in use. */
  isByKey: boolean;
  next: RunItem | undefined;
  onNext: () => void;
  onSent: () => void;
};

/** Where something is typed or chosen. Buttons act, so they never get the focus by themselves. */
const FIELD = ".answer :is(input, textarea, select)";

export function OpenItem({ run, isByKey, next, onNext, onSent }: OpenItemProps) {
  const follower = useFollower(run.run_id);
  const panel = useRef<HTMLElement>(null);
  const length = follower?.history.length ?? 0;
  useFieldFocus(panel, isByKey);
  return (
    <section className="panel inbox-open" aria-label={nameRun(run.name)} ref={panel} tabIndex={-1}>
      <Link to="/inbox" className="button inbox-back" data-look="quiet">
        <Icon name="left" />
        {t.inbox.back}
      </Link>
      <header className="inbox-open-head">
        <h2 className="cut">{nameRun(run.name)}</h2>
        <Link to="/runs/$run" params={{ run: run.run_id }} className="button">
          {t.inbox.open}
        </Link>
      </header>
      {follower && length > 0 ? (
        <OpenSteps follower={follower} next={next} onNext={onNext} onSent={onSent} />
      ) : (
        <p className="soft">{t.loading}</p>
      )}
    </section>
  );
}

/** On a touch screen, a field that has the focus opens a keyboard over what it is about. */
function hasFinePointer(): boolean {
  return window.matchMedia("(pointer: fine)").matches;
}

/** The focus begins in the first field, or outside of it; Escape leaves a field, and Enter returns to it. */
function useFieldFocus(panel: RefObject<HTMLElement | null>, isByKey: boolean): void {
  const hasFocused = useRef(isByKey || !hasFinePointer());
  const findField = () => panel.current?.querySelector<HTMLElement>(FIELD);
  useEffect(() => panel.current?.focus({ preventScroll: true }), [panel]);
  useEffect(() => {
    const field = hasFocused.current ? undefined : findField();
    if (!field) return;
    hasFocused.current = true;
    // Later events must not take the focus from someone who is elsewhere by now.
    if (document.activeElement === panel.current) field.focus({ preventScroll: true });
  });
  useKeys((event) => {
    const focused = document.activeElement;
    if (event.key === "Escape" && isTyping(event) && focused?.matches(FIELD)) {
      panel.current?.focus();
    } else if (event.key === "Enter" && (focused === panel.current || focused === document.body)) {
      const field = findField();
      if (!field) return;
      event.preventDefault();
      field.focus();
    }
  });
}

/** Whether something is answered with a field, and not with buttons. */
function hasField({ isOpen, waiting }: Shown): boolean {
  return isOpen && waiting.question !== undefined && !isApproval(waiting.question);
}

type OpenStepsProps = Omit<OpenItemProps, "run" | "isByKey"> & { follower: RunFollower };

/** What waits, and what waited when the item was opened. */
function OpenSteps({ follower, next, onNext, onSent }: OpenStepsProps) {
  const state = follower.history.shownAt(follower.history.length);
  const [sent, setSent] = useState<ReadonlySet<string>>(new Set());
  const before = useRef<Shown[]>([]);
  const shown = keepShown(before.current, listWaiting(follower.run, state), sent);
  before.current = shown;
  const isDone = sent.size > 0 && shown.every((one) => !one.isOpen);
  const inputs = state.created?.inputs;
  return (
    <>
      {inputs !== undefined && !isEmptyInput(inputs) && (
        <ValueView value={inputs} label={t.run.inputs} asFields />
      )}
      {shown.map((one) => (
        <WaitingStep
          key={keyOf(one.waiting)}
          shown={one}
          state={state}
          onDone={() => follower.refresh()}
          onSent={() => {
            setSent(new Set(sent).add(keyOf(one.waiting)));
            onSent();
          }}
        />
      ))}
      {hasFinePointer() && shown.some(hasField) && <p className="faint">{t.inbox.keys}</p>}
      {(isDone || shown.length === 0) && <p>{isDone ? t.inbox.done : t.inbox.nothing}</p>}
      {shown.every((one) => !one.isOpen) && <NextLink next={next} hasFocus={isDone} onNext={onNext} />}
    </>
  );
}

type NextLinkProps = { next: RunItem | undefined; hasFocus: boolean; onNext: () => void };

/** Leads to the next item. It has the focus after an answer: nothing is answered by pressing a key once more. */
function NextLink({ next, hasFocus, onNext }: NextLinkProps) {
  const link = useRef<HTMLAnchorElement>(null);
  useEffect(() => {
    if (hasFocus) link.current?.focus();
  }, [hasFocus]);
  if (!next) return <p className="soft">{t.inbox.last}</p>;
  return (
    <p>
      <Link ref={link} to="/inbox" search={{ item: next.run_id }} replace className="button" onClick={onNext}>
        {t.inbox.next(nameRun(next.name))}
      </Link>
    </p>
  );
}

type WaitingStepProps = { shown: Shown; state: RunState; onDone: () => void; onSent: () => void };

function WaitingStep({ shown, state, onDone, onSent }: WaitingStepProps) {
  const { waiting, isOpen } = shown;
  const { run, path, question, step } = waiting;
  const kind = !question ? "uncertain" : question.subject ? "approval" : "question";
  const closed = explainClosed(state, path);
  return (
    <div className="inbox-step">
      <p className="faint" title={path}>
        {t.inbox.kinds[kind]}
      </p>
      {question ? (
        <AnswerForm
          run={run}
          path={path}
          question={question}
          onDone={onDone}
          onSent={onSent}
          closed={isOpen ? undefined : closed}
        />
      ) : (
        <>
          {!isOpen && <Problem severity="warning">{closed}</Problem>}
          {step && (
            <>
              <h3>{t.inbox.request}</h3>
              <StepRequests run={run} step={step} />
            </>
          )}
          {isOpen && <ResolveForm run={run} path={path} onDone={onDone} onSent={onSent} />}
        </>
      )}
    </div>
  );
}
