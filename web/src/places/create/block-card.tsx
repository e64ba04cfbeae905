// A block of the pipeline that is being created: its origin, its versions, and the results of its trials.
import { useState } from "react";
import type { BlockState, PlannedBlock } from "../../run/planner";
import { t } from "../../strings";
import { Icon, type IconName } from "../../ui/icon";
import { Problem } from "../../ui/problem";
import { CodeBox } from "../../ui/value";

const LOOKS: Record<BlockState, [IconName, string]> = {
  wanted: ["clock", "queued"],
  found: ["check", "finished"],
  missing: ["plus", "waiting"],
  writing: ["spin", "running"],
  repaired: ["undo", "running"],
  passed: ["check", "finished"],
  failed: ["cross", "failed"],
};

export function BlockCard({ block }: { block: PlannedBlock }) {
  const [icon, look] = LOOKS[block.state];
  return (
    <article className="panel create-block">
      <header>
        <h3 className="mono cut">{block.id}</h3>
        <span className="state" data-state={look}>
          <Icon name={icon} />
          {t.create.block[block.state]}
        </span>
      </header>
      <p className="soft">{block.description}</p>
      {block.score !== undefined && <p className="faint number">{t.create.match(block.score)}</p>}
      {block.versions.length > 0 && <Versions block={block} />}
    </article>
  );
}

function Versions({ block }: { block: PlannedBlock }) {
  const [chosen, setChosen] = useState<number>();
  const at = chosen ?? block.versions.length - 1;
  const version = block.versions[at];
  return (
    <>
      {block.versions.length > 1 && (
        <div className="create-versions">
          {block.versions.map((_, number) => (
            <button
              // biome-ignore lint/suspicious/noArrayIndexKey: versions are only added at the end.
              key={number}
              type="button"
              className="value-look"
              aria-pressed={number === at}
              onClick={() => setChosen(number)}
            >
              {t.create.attempt(number + 1)}
            </button>
          ))}
        </div>
      )}
      {version?.source && <CodeBox label={`${t.create.source} ${block.id}`} text={version.source} />}
      {version?.problem && <Problem severity="warning">{version.problem}</Problem>}
      {!version?.problem && block.state === "passed" && <p className="faint">{t.create.trialPassed}</p>}
    </>
  );
}
