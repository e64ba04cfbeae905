// The palette finds pages, workflows, runs and commands by a few letters.

import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, useState } from "react";
import { changeKey, readKey, storeKey } from "../api/key";
import { runsQuery, workflowsQuery } from "../api/queries";
import { nameRun } from "../run/name";
import { t } from "../strings";
import { showDirections } from "../ui/bidi";
import { listCommands } from "../ui/commands";
import { Dialog } from "../ui/dialog";
import { formatAge } from "../ui/format";
import { Icon, type IconName } from "../ui/icon";
import { switchTheme } from "../ui/theme";
import { PLACES } from "./places";

type Target = {
  id: string;
  title: string;
  hint: string;
  /** What it is also found by. */
  words?: string;
  icon: IconName;
  open: () => void;
};

const MAX_TARGETS = 50;
/** The list begins with at most so many of the workflows that ran last, and of the last runs. */
const MAX_RECENT = 4;

export function Palette({ onClose }: { onClose: () => void }) {
  const [query, setQuery] = useState("");
  const [chosen, setChosen] = useState(0);
  const targets = useTargets(query.trim() !== "")
    .filter((target) => matches(target, query))
    .slice(0, MAX_TARGETS);
  const at = Math.min(chosen, Math.max(0, targets.length - 1));
  const open = (target: Target | undefined) => {
    onClose();
    target?.open();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && targets.length > 0) {
      event.preventDefault();
      setChosen((at + step + targets.length) % targets.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      open(targets[at]);
    }
  };
  return (
    <Dialog label={t.palette.label} onClose={onClose} className="palette">
      <input
        role="combobox"
        aria-label={t.palette.label}
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={targets.length > 0 ? `palette-${at}` : undefined}
        placeholder={t.palette.placeholder}
        autoFocus
        value={query}
        onChange={(event) => {
          setQuery(event.target.value);
          setChosen(0);
        }}
        onKeyDown={onKeyDown}
      />
      <div role="listbox" id="palette-list" aria-label={t.palette.label} tabIndex={-1}>
        {targets.map((target, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the field above.
          <div
            key={target.id}
            id={`palette-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === at}
            ref={index === at ? (element) => element?.scrollIntoView({ block: "nearest" }) : undefined}
            onClick={() => open(target)}
            onMouseMove={() => setChosen(index)}
          >
            <Icon name={target.icon} />
            <span className="cut">{target.title}</span>
            <small>{target.hint}</small>
          </div>
        ))}
      </div>
      {targets.length === 0 && <p className="empty">{t.palette.empty}</p>}
    </Dialog>
  );
}

/** Whether every word of the query occurs in the title. */
function matches(target: Target, query: string): boolean {
  const title = `${target.title} ${target.hint} ${target.words ?? ""}`.toLowerCase();
  return query
    .toLowerCase()
    .split(/\s+/)
    .every((word) => title.includes(word));
}

/** Everything that can be chosen. Before a letter is entered, it begins with what ran lately. */
function useTargets(isSearch: boolean): Target[] {
  const navigate = useNavigate();
  const workflows = useQuery(workflowsQuery).data ?? [];
  const runs = useQuery(runsQuery({ limit: 30 })).data?.items ?? [];
  const pages = PLACES.map(
    ({ to, icon, title }): Target => ({
      id: to,
      title,
      hint: t.palette.page,
      icon,
      open: () => void navigate({ to }),
    }),
  );
  const flows = workflows.map(
    (workflow): Target => ({
      id: `workflow ${workflow.id}`,
      title: workflow.name ? `${workflow.name} (${workflow.id})` : workflow.id,
      hint: t.palette.workflow,
      icon: "branch",
      open: () => void navigate({ to: "/workflows/$workflow", params: { workflow: workflow.id } }),
    }),
  );
  const recent = runs.map(
    (run): Target => ({
      id: `run ${run.run_id}`,
      title: run.input ? `${nameRun(run.name)}: ${showDirections(run.input)}` : nameRun(run.name),
      hint: `${t.palette.run} · ${formatAge(run.created_at)}`,
      words: run.run_id,
      icon: "runs",
      open: () => void navigate({ to: "/runs/$run", params: { run: run.run_id } }),
    }),
  );
  const own = listOwnCommands();
  const all = [...own, ...listGeneralCommands(), ...pages, ...flows, ...recent];
  if (isSearch) return all;
  const byId = new Map(flows.map((flow) => [flow.id, flow]));
  const used = new Set(runs.flatMap(({ workflow }) => byId.get(`workflow ${workflow}`) ?? []));
  const first = [...[...used].slice(0, MAX_RECENT), ...recent.slice(0, MAX_RECENT)];
  return [...new Set([...first, ...own, ...pages, ...all])];
}

/** The commands of the place that is shown. */
function listOwnCommands(): Target[] {
  return listCommands().map(({ title, icon, run }) => toCommand(`command ${title}`, title, icon, run));
}

function listGeneralCommands(): Target[] {
  const theme = toCommand("theme", t.theme.switch, "sun", switchTheme);
  if (!readKey()) return [theme];
  return [
    theme,
    toCommand("change-key", t.key.change, "edit", () => changeKey(true)),
    toCommand("key", t.key.forget, "close", () => storeKey(null)),
  ];
}

function toCommand(id: string, title: string, icon: IconName, open: () => void): Target {
  return { id, title, hint: t.palette.command, icon, open };
}
