// Conversations with graphs and agents: the partners and the threads on the left, the messages on the right.

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { api, read } from "../../api/client";
import { t } from "../../strings";
import { IconButton } from "../../ui/button";
import { ConfirmDialog } from "../../ui/dialog";
import { Icon } from "../../ui/icon";
import { Empty, ErrorBox } from "../../ui/problem";
import { useTitle } from "../../ui/title";
import { Conversation } from "./conversation";
import { newThreadName, type Partner, type ThreadInfo, threadsQuery, usePartners } from "./partners";
import "./chat.css";

export function Chat() {
  useTitle(t.places.chat);
  const partners = usePartners();
  const threads = useQuery(threadsQuery);
  const search = useSearch({ from: "/chat" });
  const partner = partners?.find((one) => one.id === search.with);
  const isOpen = partner !== undefined && search.thread !== undefined;
  return (
    <div className="chat" data-open={isOpen || undefined}>
      <aside className="chat-side" aria-label={t.chat.threads}>
        <h1>{t.chat.title}</h1>
        {threads.error && <ErrorBox error={threads.error} />}
        {partners?.map((one) => (
          <PartnerThreads key={one.id} partner={one} threads={threads.data ?? []} open={search.thread} />
        ))}
      </aside>
      <section className="chat-main" aria-label={partner?.title ?? t.chat.title}>
        {partner && search.thread ? (
          <OpenThread key={`${partner.id} ${search.thread}`} partner={partner} thread={search.thread} />
        ) : (
          <Empty title={t.chat.partners}>
            <p>{(partners?.length ?? 0) > 1 ? t.chat.choose : t.chat.noneHelp}</p>
          </Empty>
        )}
      </section>
    </div>
  );
}

type PartnerThreadsProps = { partner: Partner; threads: ThreadInfo[]; open: string | undefined };

/** A partner, and the conversations with it, newest first. */
function PartnerThreads({ partner, threads, open }: PartnerThreadsProps) {
  const navigate = useNavigate({ from: "/chat" });
  const own = threads.filter((thread) => thread.workflow === partner.id).reverse();
  const show = (thread: string | undefined) =>
    void navigate({ search: { with: partner.id, thread: thread ?? newThreadName() } });
  return (
    <section className="chat-partner" aria-label={partner.title}>
      <header>
        <h2 className="cut" title={partner.about}>
          <button type="button" className="text-button" onClick={() => show(own[0]?.thread)}>
            {partner.title}
          </button>
        </h2>
        <span className="badge">{t.format(partner.format)}</span>
        <IconButton
          icon="plus"
          label={`${t.chat.newThread}: ${partner.title}`}
          onClick={() => show(undefined)}
        />
      </header>
      {own.length > 0 && (
        <ul>
          {own.map(({ thread, title }) => (
            <li key={thread}>
              <Link
                to="/chat"
                search={{ with: partner.id, thread }}
                className="chat-thread cut"
                aria-current={thread === open}
              >
                {title || thread}
              </Link>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function OpenThread({ partner, thread }: { partner: Partner; thread: string }) {
  const navigate = useNavigate({ from: "/chat" });
  const queries = useQueryClient();
  const [isDeleting, setIsDeleting] = useState(false);
  const remove = useMutation({
    mutationFn: () => {
      const path = { workflow: partner.id, thread };
      return read(api.DELETE("/api/v1/threads/{workflow}/{thread}", { params: { path } }));
    },
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: threadsQuery.queryKey });
      void navigate({ search: {} });
    },
  });
  return (
    <>
      <header className="chat-head">
        <Link to="/chat" search={{}} className="button chat-back" data-look="quiet" aria-label={t.chat.back}>
          <Icon name="left" />
        </Link>
        <div className="chat-name">
          <h2 className="cut">{partner.title}</h2>
          <p className="faint cut">{partner.about}</p>
        </div>
        <IconButton icon="trash" label={t.chat.delete} onClick={() => setIsDeleting(true)} />
      </header>
      {remove.error && <ErrorBox error={remove.error} />}
      <Conversation partner={partner} thread={thread} />
      {isDeleting && (
        <ConfirmDialog
          title={t.chat.confirmDelete}
          help={t.chat.confirmDeleteHelp}
          confirm={t.chat.delete}
          onConfirm={() => remove.mutate()}
          onClose={() => setIsDeleting(false)}
        />
      )}
    </>
  );
}
