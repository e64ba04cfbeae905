// The run as a whole: what it waits for, how it ended, its inputs and its output.
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useRef, useState } from "react";
import { useMay } from "../../api/caller";
import { readExactly } from "../../api/client";
import type { Json } from "../../api/json";
import type { RunState } from "../../run/fold";
import { isFinal } from "../../run/record";
import { findFailedSteps } from "../../run/rows";
import { nameTrigger } from "../../run/trigger";
import { t } from "../../strings";
import { AnswerForm, ResolveForm } from "../../ui/answer-form";
import { Button } from "../../ui/button";
import { formatTime } from "../../ui/format";
import { Problem } from "../../ui/problem";
import { Tabs } from "../../ui/tabs";
import { ValueView } from "../../ui/value";
import { useFamily } from "../compare/family-tree";
import { ForkDialog } from "./fork-dialog";
import { StepQuestion } from "./step-question";
import type { RunView } from "./use-run";
import { Variables } from "./variables";

/** So many of the steps that failed are listed. */
const SHOWN_FAILED = 5;

/** The same tab stays when a step is selected, or no longer. */
const OVERVIEW_TABS = ["output", "variables"] as const;

export function Overview({ view, onSelect }: { view: RunView; onSelect: (path: string) => void }) {
  const search = useSearch({ from: "/runs/$run" });
  const navigate = useNavigate({ from: "/runs/$run" });
  const tab = OVERVIEW_TABS.find((one) => one === search.tab) ?? "output";
  return (
    <>
      <header className="details-head">
        <div className="details-title">
          <h2>{t.run.overview}</h2>
        </div>
        <RunFacts view={view} />
      </header>
      <Tabs
        label={t.run.overview}
        selected={tab}
        onSelect={(name) => void navigate({ search: (before) => ({ ...before, tab: name }), replace: true })}
        tabs={OVERVIEW_TABS.map((name) => ({ name, title: t.run.overviewTabs[name] }))}
      />
      <div className="details-body">
        {tab === "variables" ? <Variables view={view} /> : <Summary view={view} onSelect={onSelect} />}
      </div>
    </>
  );
}

/** When and by what the run was started, and the runs that it belongs to. */
function RunFacts({ view: { state, follower } }: { view: RunView }) {
  const { created } = state;
  return (
    <dl className="facts">
      <div>
        <dt>{t.run.started}</dt>
        <dd className="number">{formatTime(state.createdAt)}</dd>
      </div>
      <div>
        <dt>Id</dt>
        <dd className="mono cut" title={follower.run}>
          {follower.run}
        </dd>
      </div>
      {created?.trigger && (
        <div>
          <dt>{t.run.startedBy}</dt>
          <dd>{nameTrigger(created.trigger)}</dd>
        </div>
      )}
      {created?.fork && (
        <div>
          <dt>{t.fork.from}</dt>
          <dd>
            <Link to="/runs/$run" params={{ run: created.fork.run }}>
              {created.fork.at ?? t.fork.firstDifference}
            </Link>
            {" · "}
            <Link to="/runs/compare" search={{ left: created.fork.run, right: follower.run }}>
              {t.fork.compare}
            </Link>
          </dd>
        </div>
      )}
      <FamilyFact run={follower.run} />
      {created?.parent && (
        <div>
          <dt>{t.run.parentRun}</dt>
          <dd>
            <Link to="/runs/$run" params={{ run: created.parent.run }} search={{ step: created.parent.path }}>
              {created.parent.path}
            </Link>
          </dd>
        </div>
      )}
    </dl>
  );
}

/** How the run ended, what it waits for, its inputs and its output. */
function Summary({ view, onSelect }: { view: RunView; onSelect: (path: string) => void }) {
  const { state, follower, at } = view;
  const { created } = state;
  return (
    <>
      {state.error && (
        <Problem code={state.error.code}>
          {state.error.message}
          <FailedSteps state={state} onSelect={onSelect} />
        </Problem>
      )}
      {at === undefined && <OpenSteps view={view} />}
      {state.status === "succeeded" && at === undefined && <RunOutput run={follower.run} seq={state.seq} />}
      {created && <Inputs run={follower.run} inputs={created.inputs} />}
      {state.steps.length > 0 && <p className="faint">{t.run.selectStep}</p>}
    </>
  );
}

/** The steps because of which the run failed. */
function FailedSteps({ state, onSelect }: { state: RunState; onSelect: (path: string) => void }) {
  const steps = findFailedSteps(state).slice(0, SHOWN_FAILED);
  return (
    <ul aria-label={t.run.failedSteps}>
      {steps.map(({ path, error }) => (
        <li key={path}>
          <button type="button" className="text-button mono" onClick={() => onSelect(path)}>
            {path}
          </button>
          {error && error.message !== state.error?.message && <span className="soft"> {error.message}</span>}
        </li>
      ))}
    </ul>
  );
}

/** The inputs, and a fork with others. */
function Inputs({ run, inputs }: { run: string; inputs: Json }) {
  const [isForking, setIsForking] = useState(false);
  const mayRun = useMay("run");
  return (
    <>
      <ValueView value={inputs} label={t.run.inputs} />
      {mayRun && (
        <p>
          <Button icon="branch" onClick={() => setIsForking(true)}>
            {t.fork.inputsOpen}
          </Button>
        </p>
      )}
      {isForking && <ForkDialog run={run} inputs={inputs} onClose={() => setIsForking(false)} />}
    </>
  );
}

/** How many runs were forked from the same first run, if any. */
function FamilyFact({ run }: { run: string }) {
  const { data } = useFamily(run);
  const count = data?.members.length ?? 0;
  if (count < 2) return null;
  return (
    <div>
      <dt>{t.family.title}</dt>
      <dd>
        <Link to="/runs/compare" search={{ right: run }}>
          {t.family.count(count)}
        </Link>
      </dd>
    </div>
  );
}

/** Everything that the run waits for, also in its child runs. */
function OpenSteps({ view }: { view: RunView }) {
  const { state, follower } = view;
  const onDone = () => follower.refresh();
  const own = state.steps.filter((step) => !state.children.has(step.path));
  const isOver = isFinal(state.status);
  // Those that were asked here stay when someone else answers, or ends the run.
  const asked = useRef(new Set<string>());
  for (const step of own) if (step.question) asked.current.add(step.path);
  return (
    <>
      {own
        .filter((step) => asked.current.has(step.path))
        .map((step) => (
          <StepQuestion key={step.path} view={view} step={step} onDone={onDone} />
        ))}
      {own
        .filter((step) => step.phase === "uncertain" && !isOver)
        .map((step) => (
          <ResolveForm key={step.path} run={follower.run} path={step.path} onDone={onDone} />
        ))}
      {[...(isOver ? [] : state.children)].flatMap(([parent, child]) =>
        (child.open ?? []).map((open) => (
          <section key={`${parent} ${open.path}`}>
            <p className="faint">
              {t.run.childRun}{" "}
              <Link to="/runs/$run" params={{ run: child.run }} search={{ step: open.path }} className="mono">
                {open.path}
              </Link>
            </p>
            {open.question ? (
              <AnswerForm run={child.run} path={open.path} question={open.question} onDone={onDone} />
            ) : (
              <ResolveForm run={child.run} path={open.path} onDone={onDone} />
            )}
          </section>
        )),
      )}
    </>
  );
}

function RunOutput({ run, seq }: { run: string; seq: number }) {
  const { data } = useQuery({
    queryKey: ["runs", "output", run, seq],
    queryFn: ({ signal }) => readExactly(`api/v1/runs/${run}`, signal),
    staleTime: Number.POSITIVE_INFINITY,
  });
  const output = (data as { output?: Json } | undefined)?.output;
  if (output === undefined || output === null) return null;
  return <ValueView value={output} label={t.run.output} />;
}
