// The tests of the project: run them, and see the differences from their expectations.

import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { api, read, type Schemas } from "../../api/client";
import { workflowsQuery } from "../../api/queries";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { ConfirmDialog } from "../../ui/dialog";
import { DiffView } from "../../ui/diff-view";
import { formatDuration } from "../../ui/format";
import { Icon, type IconName } from "../../ui/icon";
import { Empty, ErrorBox, Problem } from "../../ui/problem";
import { useTitle } from "../../ui/title";
import { judge, type Result, testsOf } from "./of-workflow";
import { testsQuery, useTestResults } from "./results";
import "./tests.css";

type Info = Schemas["TestInfo"];

export function Tests() {
  useTitle(t.tests.title);
  const { workflow } = useSearch({ from: "/tests" });
  const { data: all, error } = useQuery(testsQuery);
  const { data: workflows } = useQuery(workflowsQuery);
  const { results, add } = useTestResults();
  const run = useMutation({
    mutationFn: (body: Schemas["RunTestsRequest"]) => read(api.POST("/api/v1/tests", { body })),
    onSuccess: ({ items }) => add(items),
  });
  const tested = workflows?.find(({ id }) => id === workflow);
  const tests = all && workflow !== undefined ? testsOf(all, tested ?? { id: workflow }) : all;
  const ran = tests?.filter((test) => results.has(test.file)) ?? [];
  const { failed } = judge(ran, results);
  const runShown = () =>
    run.mutate(workflow === undefined ? {} : { files: tests?.map((test) => test.file) ?? [] });
  return (
    <div className="page">
      <header className="page-head">
        <h1>{t.tests.title}</h1>
        {ran.length > 0 && (
          <span role="status" className="state" data-state={failed > 0 ? "failed" : "succeeded"}>
            <Icon name={failed > 0 ? "cross" : "check"} />
            {t.tests.summary(ran.length - failed, failed)}
          </span>
        )}
        {tests && tests.length > 0 && (
          <Button look="main" icon="play" disabled={run.isPending} onClick={runShown}>
            {run.isPending ? t.tests.running : t.tests.run}
          </Button>
        )}
      </header>
      <p className="soft">{t.tests.help}</p>
      {workflow !== undefined && (
        <p className="tests-filter">
          <span>
            {t.tests.ofDefinition} <b>{tested?.name ?? workflow}</b>
          </span>
          <Link to="/tests" className="button" data-look="quiet">
            {t.tests.showAll}
          </Link>
        </p>
      )}
      {error && <ErrorBox error={error} />}
      {run.error && <ErrorBox error={run.error} />}
      {tests?.length === 0 && (
        <section className="panel">
          <Empty title={t.tests.none}>
            <p>{t.tests.noneHelp}</p>
            <pre>{t.tests.noneCommand}</pre>
          </Empty>
        </section>
      )}
      <ul className="tests">
        {tests?.map((test) => (
          <Test
            key={test.file}
            test={test}
            result={results.get(test.file)}
            onRun={() => run.mutate({ files: [test.file] })}
            onAccept={() => run.mutate({ files: [test.file], update: true })}
            isBusy={run.isPending}
          />
        ))}
      </ul>
    </div>
  );
}

type TestProps = {
  test: Info;
  result: Result | undefined;
  onRun: () => void;
  onAccept: () => void;
  isBusy: boolean;
};

function Test({ test, result, onRun, onAccept, isBusy }: TestProps) {
  const [isAccepting, setIsAccepting] = useState(false);
  const [icon, state, text]: [IconName, string, string] = !result
    ? ["clock", "queued", t.tests.notRun]
    : result.passed
      ? ["check", "succeeded", result.updated ? t.tests.updated : t.tests.passed]
      : ["cross", "failed", t.tests.failed];
  // A file that is no test, or whose definition has errors, is for a person to mend.
  const canAccept = result?.problems.some(({ place }) => place !== "file" && place !== "inputs");
  const name = test.name ?? test.file;
  return (
    <li className="panel test">
      <header>
        <span className="state" data-state={state}>
          <Icon name={icon} />
          {text}
        </span>
        <h2 className="cut">{name}</h2>
        <span className="faint mono cut">{test.file}</span>
        {result && <span className="faint number">{formatDuration(result.duration_ms)}</span>}
        <Button icon="play" look="quiet" disabled={isBusy} aria-label={t.tests.runOne(name)} onClick={onRun}>
          {t.workflow.run}
        </Button>
      </header>
      {result?.problems.map((problem) => (
        <div key={`${problem.place} ${problem.message}`} className="test-problem">
          <Problem>
            <span className="mono">{problem.place}</span> {problem.message}
          </Problem>
          {problem.expected != null && problem.found != null && (
            <DiffView before={problem.expected} after={problem.found} />
          )}
        </div>
      ))}
      {canAccept && (
        <div className="test-actions">
          <Button disabled={isBusy} aria-label={t.tests.acceptOne(name)} onClick={() => setIsAccepting(true)}>
            {t.tests.accept}
          </Button>
        </div>
      )}
      {isAccepting && (
        <ConfirmDialog
          title={t.tests.acceptTitle}
          help={t.tests.acceptHelp(test.file)}
          confirm={t.tests.accept}
          keep={t.tests.keep}
          onConfirm={onAccept}
          onClose={() => setIsAccepting(false)}
        />
      )}
    </li>
  );
}
