// The variables of the run at the position. They follow from the record; the server computes them.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { readExactly } from "../../api/client";
import { formatJson, type Json } from "../../api/json";
import { t } from "../../strings";
import { ErrorBox } from "../../ui/problem";
import { ValueView } from "../../ui/value";
import type { RunView } from "./use-run";
import "./variables.css";

/** While the position moves, the variables are asked for at most once in this time. */
const MIN_PAUSE_MS = 250;
const MAX_EXCERPT_CHARACTERS = 120;

export function Variables({ view: { follower, state } }: { view: RunView }) {
  const { run } = follower;
  const at = useSlowly(state.seq);
  const { data, error } = useQuery({
    queryKey: ["runs", "variables", run, at],
    queryFn: ({ signal }) => readExactly(`api/v1/runs/${encodeURIComponent(run)}/variables?at=${at}`, signal),
    staleTime: Number.POSITIVE_INFINITY,
    placeholderData: keepPreviousData,
  });
  if (error) return <ErrorBox error={error} />;
  if (!data) return <p className="soft">{t.loading}</p>;
  const entries = Object.entries((data as { variables: { [name: string]: Json } }).variables);
  if (entries.length === 0) return <p className="soft">{t.run.noVariables}</p>;
  return (
    <>
      <p className="faint">{t.run.variablesHelp}</p>
      <ul className="variables" aria-label={t.run.tabs.variables}>
        {entries.map(([name, value]) => (
          <li key={name}>
            <Variable name={name} value={value} />
          </li>
        ))}
      </ul>
    </>
  );
}

function Variable({ name, value }: { name: string; value: Json }) {
  const [isOpen, setIsOpen] = useState(false);
  return (
    <details onToggle={(event) => setIsOpen(event.currentTarget.open)}>
      <summary>
        <span className="mono">{name}</span>{" "}
        <span className="cut soft">{isOpen ? "" : excerptOf(value)}</span>
      </summary>
      {isOpen && <ValueView value={value} label={name} />}
    </details>
  );
}

function excerptOf(value: Json): string {
  const text = typeof value === "string" ? value : formatJson(value);
  return text.slice(0, MAX_EXCERPT_CHARACTERS).replaceAll(/\s+/g, " ");
}

/** A number that follows another one, but not faster than the pause. */
function useSlowly(value: number): number {
  const [slow, setSlow] = useState(value);
  const changedAt = useRef(0);
  useEffect(() => {
    const wait = Math.max(0, MIN_PAUSE_MS - (Date.now() - changedAt.current));
    const timer = setTimeout(() => {
      changedAt.current = Date.now();
      setSlow(value);
    }, wait);
    return () => clearTimeout(timer);
  }, [value]);
  return slow;
}
