// Blocks, agents, tools, functions and MCP servers: a list with a search, and the selected one.

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useDeferredValue, useState } from "react";
import { useMay } from "../../api/caller";
import { api, read } from "../../api/client";
import { t } from "../../strings";
import { Icon } from "../../ui/icon";
import { Empty, ErrorBox } from "../../ui/problem";
import { Tabs } from "../../ui/tabs";
import { useTitle } from "../../ui/title";
import { FunctionDetails, ServerDetails } from "./configured";
import { type Entry, KINDS, type Kind, listQuery } from "./entries";
import { NewPart } from "./new-part";
import { PartDetails } from "./part-details";
import "./library.css";

export function Library() {
  useTitle(t.library.title);
  const search = useSearch({ from: "/library" });
  const navigate = useNavigate({ from: "/library" });
  const kind = KINDS.find((one) => one === search.kind) ?? "blocks";
  const [text, setText] = useState("");
  const wanted = useDeferredValue(text.trim());
  const list = useQuery(listQuery(kind));
  const found = useNearest(kind, wanted);
  const entries = selectEntries(list.data ?? [], wanted, found);
  const mayWrite = useMay("write");
  const isStored = kind === "blocks" || kind === "agents" || kind === "tools";
  return (
    <div className="page library">
      <header className="page-head">
        <h1>{t.library.title}</h1>
        {isStored && mayWrite && <NewPart kind={kind} />}
      </header>
      <Tabs
        label={t.library.title}
        tabs={KINDS.map((name) => ({ name, title: t.library.kinds[name] }))}
        selected={kind}
        onSelect={(name) => {
          setText("");
          void navigate({ search: { kind: name }, replace: true });
        }}
      />
      <p className="soft">{t.library.about[kind]}</p>
      {isStored && !mayWrite && <p className="soft">{t.key.noWrite}</p>}
      <div className="library-parts" data-open={search.item !== undefined || undefined}>
        <section className="library-list" aria-label={t.library.kinds[kind]}>
          <input
            className="input"
            type="search"
            aria-label={kind === "blocks" ? t.library.search : t.library.filter}
            placeholder={kind === "blocks" ? t.library.search : t.library.filter}
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
          {list.error && <ErrorBox error={list.error} />}
          {list.data && entries.length === 0 && <p className="soft">{t.library.empty[kind]}</p>}
          <Entries kind={kind} entries={entries} open={search.item} />
        </section>
        <section className="library-open" aria-label={search.item ?? t.library.select}>
          {search.item && (
            <Link to="/library" search={{ kind }} className="button library-back" data-look="quiet">
              <Icon name="left" />
              {t.library.back(kind)}
            </Link>
          )}
          {search.item ? (
            <Details key={`${kind} ${search.item}`} kind={kind} id={search.item} />
          ) : (
            entries.length > 0 && <Empty title={t.library.select} />
          )}
        </section>
      </div>
    </div>
  );
}

type EntriesProps = { kind: Kind; entries: Entry[]; open: string | undefined };

function Entries({ kind, entries, open }: EntriesProps) {
  return (
    <ul>
      {entries.map((entry) => (
        <li key={entry.id}>
          <Link
            to="/library"
            search={{ kind, item: entry.id }}
            className="library-item"
            aria-current={entry.id === open}
          >
            <span className="mono cut">{entry.id}</span>
            <span className="badge">{entry.origin}</span>
            <span className="soft library-about">{entry.about}</span>
          </Link>
        </li>
      ))}
    </ul>
  );
}

function Details({ kind, id }: { kind: Kind; id: string }) {
  switch (kind) {
    case "functions":
      return <FunctionDetails id={id} />;
    case "servers":
      return <ServerDetails name={id} />;
    default:
      return <PartDetails kind={kind} id={id} />;
  }
}

/** The ids of the blocks nearest in meaning; undefined without a search. */
function useNearest(kind: Kind, query: string): string[] | undefined {
  const { data } = useQuery({
    queryKey: ["blocks", "search", query],
    queryFn: async () => {
      const found = await read(api.POST("/api/blocks/search", { body: { query } }));
      return (found as unknown as { id: string }[]).map(({ id }) => id);
    },
    enabled: kind === "blocks" && query.length > 2,
    placeholderData: (before) => before,
  });
  return kind === "blocks" && query.length > 2 ? data : undefined;
}

/** Entries whose text contains the query; of blocks also those that are near in meaning, which come first. */
function selectEntries(entries: Entry[], query: string, nearest: string[] | undefined): Entry[] {
  const words = query.toLowerCase();
  const places = new Map(nearest?.map((id, at) => [id, at]));
  const contains = (entry: Entry) => `${entry.id} ${entry.about}`.toLowerCase().includes(words);
  const place = (entry: Entry) => places.get(entry.id) ?? Number.POSITIVE_INFINITY;
  const found = entries.filter((entry) => contains(entry) || places.has(entry.id));
  return nearest ? found.sort((one, other) => Math.sign(place(one) - place(other)) || 0) : found;
}
