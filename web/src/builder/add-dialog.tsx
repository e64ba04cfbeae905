// Chooses the kind of a new part.
import { useState } from "react";
import { t } from "../strings";
import { Dialog } from "../ui/dialog";
import { Icon } from "../ui/icon";
import type { Inspection } from "./definition";
import { findKinds } from "./find-kinds";
import { iconOfKind, nameKind } from "./part-name";

type Kind = Inspection["kinds"][number];
type AddDialogProps = { kinds: Kind[]; onAdd: (kind: Kind) => void; onClose: () => void };

export function AddDialog({ kinds, onAdd, onClose }: AddDialogProps) {
  const [search, setSearch] = useState("");
  const shown = findKinds(
    kinds.map((kind) => ({ ...kind, title: nameOf(kind) })),
    search,
  );
  return (
    <Dialog label={t.build.addTitle} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const [first] = shown;
          if (first) onAdd(first);
        }}
      >
        <h2>{t.build.addTitle}</h2>
        <input
          className="input"
          type="search"
          aria-label={t.build.addSearch}
          placeholder={t.build.addSearch}
          value={search}
          autoFocus
          onChange={(event) => setSearch(event.target.value)}
        />
        {shown.length === 0 && <p className="soft">{t.build.addNone}</p>}
        <ul className="kind-list">
          {shown.map((kind) => (
            <li key={`${kind.list} ${kind.name}`}>
              <button type="button" className="kind" onClick={() => onAdd(kind)}>
                <Icon name={iconOfKind(kind.name)} />
                <span className="kind-text">
                  <b>{kind.title}</b>
                  <span className="soft">{kind.meaning}</span>
                </span>
              </button>
            </li>
          ))}
        </ul>
      </form>
    </Dialog>
  );
}

function nameOf(kind: Kind): string {
  return kind.list === "blocks" ? t.build.newBlock(kind.name) : nameKind(kind.name);
}
