// The tests of the project: run them, and see what is not as they expect.

import { useMutation, useQuery } from "@tanstack/react-query";
import { api, read, type Schemas } from "../../api/client";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { DiffView } from "../../ui/diff-view";
import { formatDuration } from "../../ui/format";
import { Icon, type IconName } from "../../ui/icon";
import { Empty, ErrorBox, Problem } from "../../ui/problem";
import { useTitle } from "../../ui/title";
import "./tests.css";

type Info = Schemas["TestInfo"];
type Result = Schemas["TestResult"];

export function Tests() {
  useTitle(t.tests.title);
  const { data, error } = useQuery({
    queryKey: ["tests"],
    queryFn: () => read(api.GET("/api/v1/tests")),
    retry: false,
  });
  const run = useMutation({
    mutationFn: (files: string[] | undefined) =>
      read(api.POST("/api/v1/tests", { body: files ? { files } : {} })),
  });
  const results = new Map(run.data?.items.map((result) => [result.file, result]));
  const passed = run.data?.items.filter((result) => result.passed).length ?? 0;
  const failed = (run.data?.items.length ?? 0) - passed;
  return (
    <div className="page">
      <header className="page-head">
        <h1>{t.tests.title}</h1>
        {run.data && (
          <span role="status" className="state" data-state={failed > 0 ? "failed" : "succeeded"}>
            <Icon name={failed > 0 ? "cross" : "check"} />
            {t.tests.summary(passed, failed)}
          </span>
        )}
        {data && data.items.length > 0 && (
          <Button look="main" icon="play" disabled={run.isPending} onClick={() => run.mutate(undefined)}>
            {run.isPending ? t.tests.running : t.tests.run}
          </Button>
        )}
      </header>
      <p className="soft">{t.tests.help}</p>
      {error && <ErrorBox error={error} />}
      {run.error && <ErrorBox error={run.error} />}
      {data?.items.length === 0 && (
        <section className="panel">
          <Empty title={t.tests.none}>
            <p>{t.tests.noneHelp}</p>
            <pre>{t.tests.noneCommand}</pre>
          </Empty>
        </section>
      )}
      <ul className="tests">
        {data?.items.map((test) => (
          <Test
            key={test.file}
            test={test}
            result={results.get(test.file)}
            onRun={() => run.mutate([test.file])}
            isBusy={run.isPending}
          />
        ))}
      </ul>
    </div>
  );
}

type TestProps = { test: Info; result: Result | undefined; onRun: () => void; isBusy: boolean };

function Test({ test, result, onRun, isBusy }: TestProps) {
  const [icon, state, text]: [IconName, string, string] = !result
    ? ["clock", "queued", t.tests.notRun]
    : result.passed
      ? ["check", "succeeded", t.tests.passed]
      : ["cross", "failed", t.tests.failed];
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
      {result && !result.passed && (
        <p className="soft">
          {t.tests.update} <code>{t.tests.updateCommand(test.file)}</code>
        </p>
      )}
    </li>
  );
}
