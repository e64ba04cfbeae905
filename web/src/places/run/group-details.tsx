// Details of what holds other steps: a loop, a fan-out, a node that is visited several times.
import type { RunState } from "../../run/fold";
import { durationOf, type Names, type Row, type Summary, sumRowUsage, titleOf } from "../../run/rows";
import { t } from "../../strings";
import { formatDuration } from "../../ui/format";
import { PhaseMark } from "../../ui/state";
import { ValueView } from "../../ui/value";
import { UsageFact } from "./usage-fact";

/** A row that holds others, at a position of its run. */
export type Group = {
  row: Row;
  summary: Summary;
  /** Those of its parts that have started. */
  parts: Row[];
};

export function GroupFacts({ group, state, time }: { group: Group; state: RunState; time: number }) {
  const { row, summary, parts } = group;
  const usage = sumRowUsage(state, row);
  return (
    <dl className="facts">
      <div>
        <dt>{t.run.state}</dt>
        <dd>
          <PhaseMark phase={summary.phase} />
        </dd>
      </div>
      <div>
        <dt>{t.run.parts}</dt>
        <dd className="number">{parts.length}</dd>
      </div>
      <div>
        <dt>{t.run.duration}</dt>
        <dd className="number">{formatDuration(durationOf(summary, time))}</dd>
      </div>
      {usage && <UsageFact usage={usage} />}
    </dl>
  );
}

type OutputProps = { group: Group; state: RunState; names: Names; onSelect: (path: string) => void };

/** The output, if it has one of its own, and that of its newest part. */
export function GroupOutput({ group, state, names, onSelect }: OutputProps) {
  const outputOf = (row: Row | undefined) =>
    row?.step === undefined ? undefined : state.steps[row.step]?.output;
  const newest = group.parts.at(-1);
  const [own, last] = [outputOf(group.row), outputOf(newest)];
  return (
    <>
      {own !== undefined && <ValueView value={own} label={t.run.output} />}
      {newest && (
        <p>
          <span className="soft">{t.run.newestPart} </span>
          <button type="button" className="text-button mono" onClick={() => onSelect(newest.path)}>
            {titleOf(newest.path, names)}
          </button>
        </p>
      )}
      {last !== undefined && own === undefined && <ValueView value={last} label={t.run.newestOutput} />}
    </>
  );
}
