// The inbox: what waits for a person. A list on the left, the selected item with its form on the right.

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useRef, useState } from "react";
import type { Schemas } from "../../api/client";
import { runQuery, waitingQuery } from "../../api/queries";
import { describeQuestion } from "../../run/approval";
import { nameRun } from "../../run/name";
import type { RunStatus } from "../../run/record";
import { t } from "../../strings";
import { showDirections } from "../../ui/bidi";
import { formatAge } from "../../ui/format";
import { isTyping, useKeys } from "../../ui/keyboard";
import { Empty, ErrorBox, Problem } from "../../ui/problem";
import { StatusMark } from "../../ui/state";
import { useTitle } from "../../ui/title";
import { NotifyButton } from "./notify-button";
import { chooseItem, type Opened } from "./open";
import { OpenItem } from "./open-item";
import { WorkflowNotifications } from "./workflow-notifications";
import "./inbox.css";

type RunItem = Schemas["RunItem"];

export function Inbox() {
  useTitle(t.inbox.title);
  const { data, error } = useQuery(waitingQuery);
  const { item: wanted } = useSearch({ from: "/inbox" });
  const navigate = useNavigate({ from: "/inbox" });
  const items = data ?? [];
  const opened = useRef<Opened<RunItem> | undefined>(undefined);
  opened.current = chooseItem(items, wanted, opened.current);
  const chosen = opened.current?.run;
  const [isByKey, setIsByKey] = useState(false);
  const [answered, setAnswered] = useState<ReadonlySet<string>>(new Set());
  const isListed = items.some((run) => run.run_id === chosen?.run_id);
  const isDone = chosen !== undefined && !isListed && items.length === 0 && answered.has(chosen.run_id);
  const open = (run: RunItem | undefined) => {
    setIsByKey(true);
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
      {data && wanted !== undefined && !chosen && <UnlistedItem run={wanted} />}
      <WorkflowNotifications isOpen={data !== undefined && items.length === 0} />
      {data && items.length === 0 && (!chosen || isDone) && <EmptyList />}
      {!isDone && (chosen || items.length > 0) && (
        <div className="inbox" data-open={(wanted !== undefined && chosen !== undefined) || undefined}>
          {items.length === 0 && <EmptyList />}
          <ItemList items={items} wanted={wanted} chosen={chosen?.run_id} onOpen={() => setIsByKey(false)} />
          {chosen && (
            <OpenItem
              key={chosen.run_id}
              run={chosen}
              isByKey={isByKey}
              next={items.find((run) => run.run_id !== chosen.run_id)}
              onNext={() => setIsByKey(false)}
              onSent={() => setAnswered(new Set(answered).add(chosen.run_id))}
            />
          )}
        </div>
      )}
    </div>
  );
}

/** Says that the run of a link is not in the list. */
function UnlistedItem({ run }: { run: string }) {
  return (
    <Problem severity="warning">
      {t.inbox.unlisted}{" "}
      <Link to="/runs/$run" params={{ run }}>
        {t.inbox.open}
      </Link>
    </Problem>
  );
}

type ItemListProps = {
  items: readonly RunItem[];
  /** The item that the address names. */
  wanted: string | undefined;
  chosen: string | undefined;
  onOpen: () => void;
};

/** What waits. Opening the first item is a step of the history, so that Back leads to the list. */
function ItemList({ items, wanted, chosen, onOpen }: ItemListProps) {
  return (
    <ul className="inbox-list panel" aria-label={t.inbox.list} hidden={items.length === 0}>
      {items.map((run) => (
        <li key={run.run_id}>
          <Link
            to="/inbox"
            search={{ item: run.run_id }}
            replace={wanted !== undefined}
            className="inbox-item"
            onClick={onOpen}
            aria-current={run.run_id === chosen}
          >
            <span className="inbox-item-head">
              <StatusMark status={run.status as RunStatus} />
              <span className="faint number">{formatAge(run.created_at)}</span>
            </span>
            <span className="inbox-name cut">{nameRun(run.name)}</span>
            {run.input && <span className="inbox-input">{showDirections(run.input)}</span>}
            <Excerpt run={run.run_id} />
          </Link>
        </li>
      ))}
    </ul>
  );
}

function EmptyList() {
  return (
    <section className="panel">
      <Empty title={t.inbox.empty}>
        <p>{t.inbox.emptyHelp}</p>
      </Empty>
    </section>
  );
}

/** The question of a run in one line. */
function Excerpt({ run }: { run: string }) {
  const { data } = useQuery({ ...runQuery(run), staleTime: 10_000 });
  const question = data?.steps?.find((step) => step.question)?.question;
  return (
    <span className="cut soft">
      {question ? showDirections(describeQuestion(question)) : t.inbox.kinds.uncertain}
    </span>
  );
}
