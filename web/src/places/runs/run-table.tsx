// The table of runs: what each did, how long it took, and what it used.

import { Link } from "@tanstack/react-router";
import type { Schemas } from "../../api/client";
import { nameRun } from "../../run/name";
import type { RunStatus } from "../../run/record";
import { nameTrigger } from "../../run/trigger";
import { t } from "../../strings";
import { showDirections } from "../../ui/bidi";
import { formatAge, formatDuration, formatTime, shortenId } from "../../ui/format";
import { StatusMark } from "../../ui/state";
import { describeUsage } from "./run-usage";

type RunItem = Schemas["RunItem"];

type TableProps = {
  items: RunItem[];
  selected: ReadonlySet<string>;
  onSelect: (selected: ReadonlySet<string>) => void;
};

export function RunTable({ items, selected, onSelect }: TableProps) {
  const toggle = (id: string) => {
    const next = new Set(selected);
    if (!next.delete(id)) next.add(id);
    onSelect(next);
  };
  const areAll = items.length > 0 && items.every((run) => selected.has(run.run_id));
  return (
    <div className="panel runs-table">
      <table className="table">
        <thead>
          <tr>
            <th scope="col" className="runs-check">
              <input
                type="checkbox"
                aria-label={t.runs.selectAll}
                checked={areAll}
                onChange={() => onSelect(areAll ? new Set() : new Set(items.map((run) => run.run_id)))}
              />
            </th>
            {COLUMNS.map(({ title, look }) => (
              <th key={title} scope="col" className={look}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {items.map((run) => (
            <RunRow
              key={run.run_id}
              run={run}
              isSelected={selected.has(run.run_id)}
              onToggle={() => toggle(run.run_id)}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The columns after that of the check boxes: their titles, and where there is room for them. */
const COLUMNS: { title: string; look?: string }[] = [
  { title: t.runs.status },
  { title: t.runs.workflow },
  { title: t.runs.input, look: "wide-only" },
  { title: t.runs.started },
  { title: t.runs.duration, look: "wide-only runs-figure" },
  { title: t.run.tokens, look: "wide-only runs-figure" },
  { title: t.run.cost, look: "wide-only runs-figure" },
  { title: t.run.startedBy, look: "wide-only" },
  { title: t.runs.format, look: "wider-only" },
  { title: t.runs.run, look: "wide-only" },
];

type RowProps = { run: RunItem; isSelected: boolean; onToggle: () => void };

function RunRow({ run, isSelected, onToggle }: RowProps) {
  const used = describeUsage(run.usage);
  return (
    <tr>
      <td className="runs-check">
        <input
          type="checkbox"
          aria-label={t.runs.select(shortenId(run.run_id))}
          checked={isSelected}
          onChange={onToggle}
        />
      </td>
      <td className="runs-status">
        <StatusMark status={run.status as RunStatus} />
      </td>
      <td className="runs-name">
        <Link to="/runs/$run" params={{ run: run.run_id }}>
          {nameRun(run.name)}
        </Link>
        {run.input && <small className="narrow-only soft">{showDirections(run.input)}</small>}
      </td>
      <td className="runs-input wide-only soft" title={run.input ?? undefined}>
        {run.input && showDirections(run.input)}
      </td>
      <td className="number" title={formatTime(run.created_at)}>
        {formatAge(run.created_at)}
      </td>
      <td className="number wide-only runs-figure">
        {run.finished_at == null ? "" : formatDuration(run.finished_at - run.created_at)}
      </td>
      <td className="number wide-only runs-figure" title={used?.inOut}>
        {used?.tokens}
      </td>
      <td className="number wide-only runs-figure">
        {used?.cost ?? <UnknownCost isUsed={used !== undefined} />}
      </td>
      <td className="wide-only soft">{run.trigger && nameTrigger(run.trigger)}</td>
      <td className="wider-only soft">{t.format(run.format)}</td>
      <td className="wide-only mono faint">{shortenId(run.run_id)}</td>
    </tr>
  );
}

/** The placeholder of an unknown cost; nothing for a run that called no model. */
function UnknownCost({ isUsed }: { isUsed: boolean }) {
  return isUsed && <span className="faint">{t.runs.unknownCost}</span>;
}
