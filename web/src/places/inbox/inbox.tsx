// The inbox: what waits for a person. A list on the left, the selected item with its form on the right.

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import type { Schemas } from "../../api/client";
import { runQuery, waitingQuery } from "../../api/queries";
import type { StepState } from "../../run/fold";
import type { RunFollower } from "../../run/follow";
import type { RunStatus } from "../../run/record";
import { t } from "../../strings";
import { AnswerForm, ResolveForm } from "../../ui/answer-form";
import { formatAge } from "../../ui/format";
import { isTyping, useKeys } from "../../ui/keyboard";
import { Empty, ErrorBox } from "../../ui/problem";
import { StatusMark } from "../../ui/state";
import { useTitle } from "../../ui/title";
import { StepRequests } from "../run/step-requests";
import { useFollower } from "../run/use-run";
import { NotifyButton } from "./notify-button";
import "./inbox.css";

type RunItem = Schemas["RunItem"];

export function Inbox() {
  useTitle(t.inbox.title);
  const { data, error } = useQuery(waitingQuery);
  const search = useSearch({ from: "/inbox" });
  const navigate = useNavigate({ from: "/inbox" });
  const items = data ?? [];
  const chosen = items.find((run) => run.run_id === search.item) ?? items[0];
  const open = (run: RunItem | undefined) => {
    if (run) void navigate({ search: { item: run.run_id }, replace: true });
  };
  useKeys((event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
    if (step === undefined || isTyping(event) || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const at = items.findIndex((run) => run.run_id === chosen?.run_id);
    open(items[Math.max(0, Math.min(items.length - 1, at + step))]);
  });
  return (
    <div className="page inbox-page">
      <header className="page-head">
        <h1>{t.inbox.title}</h1>
        <NotifyButton />
      </header>
      {error && <ErrorBox error={error} />}
      {data && items.length === 0 && (
        <section className="panel">
          <Empty title={t.inbox.empty}>
            <p>{t.inbox.emptyHelp}</p>
          </Empty>
        </section>
      )}
      {chosen && (
        <div className="inbox">
          <ul className="inbox-list panel" aria-label={t.inbox.list}>
            {items.map((run) => (
              <li key={run.run_id}>
                <Link
                  to="/inbox"
                  search={{ item: run.run_id }}
                  replace
                  className="inbox-item"
                  aria-current={run.run_id === chosen.run_id}
                >
                  <span className="inbox-item-head">
                    <StatusMark status={run.status as RunStatus} />
                    <span className="faint number">{formatAge(run.created_at)}</span>
                  </span>
                  <span className="cut">{run.name}</span>
                  <Excerpt run={run.run_id} />
                </Link>
              </li>
            ))}
          </ul>
          <OpenItem key={chosen.run_id} run={chosen} />
        </div>
      )}
    </div>
  );
}

/** The question of a run in one line. */
function Excerpt({ run }: { run: string }) {
  const { data } = useQuery({ ...runQuery(run), staleTime: 10_000 });
  const question = data?.steps?.find((step) => step.question)?.question;
  return <span className="cut soft">{question ?? t.inbox.kinds.uncertain}</span>;
}

function OpenItem({ run }: { run: RunItem }) {
  const follower = useFollower(run.run_id);
  const panel = useRef<HTMLElement>(null);
  const length = follower?.history.length ?? 0;
  const hasFocused = useRef(false);
  useEffect(() => {
    if (length === 0 || hasFocused.current) return;
    const control = panel.current?.querySelector<HTMLElement>(".answer :is(input, textarea, select, button)");
    if (!control) return;
    // Later events must not take the focus from someone who types.
    hasFocused.current = true;
    control.focus();
  }, [length]);
  return (
    <section className="panel inbox-open" aria-label={run.name} ref={panel}>
      <header className="inbox-open-head">
        <h2 className="cut">{run.name}</h2>
        <Link to="/runs/$run" params={{ run: run.run_id }} className="button">
          {t.inbox.open}
        </Link>
      </header>
      {follower && length > 0 ? <OpenSteps follower={follower} /> : <p className="soft">{t.loading}</p>}
    </section>
  );
}

/** The steps that wait: the run's own, and those of its child runs. */
function OpenSteps({ follower }: { follower: RunFollower }) {
  const state = follower.history.stateAt(follower.history.length);
  const onDone = () => follower.refresh();
  const own = state.steps.filter((step) => !state.children.has(step.path));
  const children = [...state.children.values()].flatMap((child) =>
    (child.open ?? []).map((open) => ({ ...open, run: child.run })),
  );
  return (
    <>
      {own.map((step) => (
        <OpenStep key={step.path} run={follower.run} step={step} onDone={onDone} />
      ))}
      {children.map((open) =>
        open.question ? (
          <AnswerForm
            key={open.run + open.path}
            run={open.run}
            path={open.path}
            question={open.question}
            onDone={onDone}
          />
        ) : (
          <ResolveForm key={open.run + open.path} run={open.run} path={open.path} onDone={onDone} />
        ),
      )}
    </>
  );
}

function OpenStep({ run, step, onDone }: { run: string; step: StepState; onDone: () => void }) {
  if (step.question) {
    const kind = step.question.subject ? t.inbox.kinds.approval : t.inbox.kinds.question;
    return (
      <div className="inbox-step">
        <p className="faint">
          {kind} <span className="mono">{step.path}</span>
        </p>
        <AnswerForm run={run} path={step.path} question={step.question} onDone={onDone} isFocused />
      </div>
    );
  }
  if (step.phase !== "uncertain") return null;
  return (
    <div className="inbox-step">
      <p className="faint">
        {t.inbox.kinds.uncertain} <span className="mono">{step.path}</span>
      </p>
      <h3>{t.inbox.request}</h3>
      <StepRequests run={run} step={step} />
      <ResolveForm run={run} path={step.path} onDone={onDone} />
    </div>
  );
}
