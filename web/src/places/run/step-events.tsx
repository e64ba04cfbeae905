// The recorded events of a step up to the position.
import { formatJson, type Json } from "../../api/json";
import { t } from "../../strings";
import { formatDuration } from "../../ui/format";
import { LongText } from "../../ui/value";
import type { RunView } from "./use-run";

const MAX_EVENTS = 200;

export function StepEvents({ view, path }: { view: RunView; path: string }) {
  const { follower, state } = view;
  const records = follower.history.records.slice(0, state.seq).filter((record) => record.path === path);
  if (records.length === 0) return <p className="soft">{t.run.notYet}</p>;
  return (
    <ol className="events">
      {records.slice(-MAX_EVENTS).map((record) => (
        <li key={record.seq}>
          <button
            type="button"
            className="text-button number"
            title={t.run.position(record.seq, follower.history.length)}
            onClick={() => view.seek(record.seq)}
          >
            {record.seq}
          </button>
          <details>
            <summary>
              <span className="mono">{record.event}</span>{" "}
              <span className="faint number">+{formatDuration(record.at - state.createdAt)}</span>
            </summary>
            <LongText text={formatJson((record.data ?? null) as Json)} isCode />
          </details>
        </li>
      ))}
    </ol>
  );
}
