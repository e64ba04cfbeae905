// The messages of a conversation. Each turn is a run; its events are followed while it is in progress.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";
import { useMay } from "../../api/caller";
import { api, read, type Schemas } from "../../api/client";
import { isFinal, type RunStatus } from "../../run/record";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { useFollowedEnd } from "../../ui/followed-end";
import { ErrorBox } from "../../ui/problem";
import { Composer } from "./composer";
import { type Partner, type Said, sendMessage, threadsQuery } from "./partners";
import { TurnView } from "./turn-view";

type RunItem = Schemas["RunItem"];

/** Turns that are shown at first, and added by each request for earlier ones. */
const SHOWN_TURNS = 10;
const REFRESH_MS = 3000;

/** How many messages came before a turn. */
export type TurnFacts = { earlier: number; text: string };

export function Conversation({ partner, thread }: { partner: Partner; thread: string }) {
  const { turns, items, showEarlier } = useTurns(partner, thread);
  const [facts, setFacts] = useState<ReadonlyMap<string, TurnFacts>>(new Map());
  const [isApproval, setIsApproval] = useState(false);
  const [edited, setEdited] = useState<TurnFacts>();
  const replaced = useMemo(() => findReplaced(items, facts), [items, facts]);
  const last = items.at(-1);
  const isRunning = last !== undefined && !isFinal(last.status as RunStatus) && last.status !== "waiting";
  const { send, stop, refresh } = useMessages(partner, thread, () => setEdited(undefined));
  const onFacts = useCallback((run: string, found: TurnFacts) => {
    setFacts((known) => (known.has(run) ? known : new Map(known).set(run, found)));
  }, []);
  const log = useFollowedEnd(items.length);
  const mayRun = useMay("run");
  return (
    <>
      <div className="chat-log" role="log" aria-label={t.chat.threads} ref={log}>
        {turns.error && <ErrorBox error={turns.error} />}
        {turns.data?.next && (
          <Button look="quiet" onClick={showEarlier}>
            {t.chat.earlier}
          </Button>
        )}
        {turns.data && items.length === 0 && <p className="chat-empty soft">{t.chat.empty}</p>}
        {items.map((item) => (
          <TurnView
            key={item.run_id}
            run={item.run_id}
            speaker={partner.title}
            isReplaced={replaced.has(item.run_id)}
            isReadOnly={!mayRun}
            isLast={item === last}
            onFacts={onFacts}
            onEnd={refresh}
            onEdit={setEdited}
            onApproval={setIsApproval}
            onRetry={(turn) => send.mutate({ text: turn.text, files: [], keep: turn.earlier })}
          />
        ))}
        {send.error && <ErrorBox error={send.error} />}
        {stop.error && <ErrorBox error={stop.error} />}
      </div>
      {mayRun ? (
        <Composer
          key={edited ? `edit ${edited.earlier}` : "new"}
          edited={edited}
          waitsFor={last?.status !== "waiting" ? undefined : isApproval ? "approval" : "answer"}
          isBusy={send.isPending || isRunning}
          place={`chat ${partner.id} ${thread} ${edited?.earlier ?? ""}`}
          onSend={(said) => send.mutateAsync(said)}
          onStop={last && isRunning ? () => stop.mutate(last.run_id) : undefined}
          onCancelEdit={() => setEdited(undefined)}
        />
      ) : (
        <p className="chat-empty soft">{t.chat.readOnly}</p>
      )}
    </>
  );
}

/** The newest turns of a conversation, the oldest of them first. */
function useTurns(partner: Partner, thread: string) {
  const [limit, setLimit] = useState(SHOWN_TURNS);
  const turns = useQuery({
    queryKey: ["runs", "turns", partner.id, thread, limit],
    queryFn: () => {
      const query = { workflow: partner.id, thread, limit };
      return read(api.GET("/api/v1/runs", { params: { query } }));
    },
    refetchInterval: REFRESH_MS,
    placeholderData: (before) => before,
  });
  const items = useMemo(() => (turns.data?.items ?? []).toReversed(), [turns.data]);
  return { turns, items, showEarlier: () => setLimit(limit + SHOWN_TURNS) };
}

/** Sends messages, and stops answers. */
function useMessages(partner: Partner, thread: string, onSent: () => void) {
  const queries = useQueryClient();
  const refresh = useCallback(() => {
    void queries.invalidateQueries({ queryKey: ["runs"] });
    void queries.invalidateQueries({ queryKey: threadsQuery.queryKey });
  }, [queries]);
  const send = useMutation({
    mutationFn: (said: Said) => sendMessage(partner, thread, said),
    onSuccess: onSent,
    onSettled: refresh,
  });
  const stop = useMutation({
    mutationFn: (run: string) =>
      read(api.POST("/api/v1/runs/{id}/cancel", { params: { path: { id: run } } })),
    onSettled: refresh,
  });
  return { send, stop, refresh };
}

/** The turns whose place was taken by a later one, which began at or before it. */
function findReplaced(items: RunItem[], facts: ReadonlyMap<string, TurnFacts>): Set<string> {
  const replaced = new Set<string>();
  let start = Number.POSITIVE_INFINITY;
  for (const { run_id } of items.toReversed()) {
    const earlier = facts.get(run_id)?.earlier;
    if (earlier === undefined) continue;
    if (earlier >= start) replaced.add(run_id);
    start = Math.min(start, earlier);
  }
  return replaced;
}
