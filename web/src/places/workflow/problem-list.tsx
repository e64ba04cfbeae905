// The problems of a definition: place, code, message and what to do.
import type { Fixes } from "../../builder/use-fixes";
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { Icon } from "../../ui/icon";
import { CodeLink, ErrorText, Problem } from "../../ui/problem";
import type { Judgement, ServerProblem } from "./use-draft";

type ProblemListProps = {
  judgement: Judgement;
  /** What can be fixed; absent if the text cannot be changed. */
  fixes: Fixes | undefined;
  onFix: (text: string) => void;
  onOpen: (problem: ServerProblem) => void;
};

/** The problems as one line that unfolds: the forms need the room. */
export function FoldedProblems(props: ProblemListProps) {
  const { problems, unknown } = props.judgement;
  if (unknown) return <UnknownProblems unknown={unknown} />;
  const hasErrors = problems.some((problem) => problem.severity !== "warning");
  return (
    <details className="problems-fold">
      <summary>
        <span className="state" data-state={hasErrors ? "failed" : "waiting"}>
          <Icon name={hasErrors ? "cross" : "warn"} />
          {t.home.problems(problems.length)}
        </span>
        <span className="soft cut">{problems[0]?.message}</span>
      </summary>
      <ProblemList {...props} />
    </details>
  );
}

export function ProblemList({ judgement, fixes, onFix, onOpen }: ProblemListProps) {
  const { problems, isChecking, unknown } = judgement;
  return (
    <section className="problems" aria-label={t.workflow.problems} aria-busy={isChecking}>
      <div className="problems-head">
        <h2>
          {t.workflow.problems} {!unknown && <span className="faint number">{problems.length}</span>}
        </h2>
        {fixes?.all !== undefined && (
          <Button onClick={() => onFix(fixes.all ?? "")}>{t.build.fixAll(fixes.count)}</Button>
        )}
      </div>
      {unknown && <UnknownProblems unknown={unknown} />}
      {problems.length === 0 && !unknown && (
        <p className="state" data-state={isChecking ? "queued" : "succeeded"}>
          <Icon name={isChecking ? "clock" : "check"} />
          {isChecking ? t.workflow.checking : t.workflow.noProblems}
        </p>
      )}
      <ul>
        {problems.map((problem) => (
          <li key={`${problem.code}:${problem.start}:${problem.message}`} className="problem-line">
            <span className="state" data-state={problem.severity === "warning" ? "waiting" : "failed"}>
              <Icon name={problem.severity === "warning" ? "warn" : "cross"} />
            </span>
            <span>
              {problem.code && <CodeLink code={problem.code} />}{" "}
              <button type="button" className="text-button problem-open" onClick={() => onOpen(problem)}>
                {problem.line != null && `${t.workflow.line(problem.line, problem.column ?? 1)}: `}
                {problem.message}
              </button>
              {problem.help && <span className="soft"> {problem.help}</span>}
              {typeof problem.fix === "string" && (
                <FixButton title={problem.fix} fixed={fixes?.fixOf(problem)} onFix={onFix} />
              )}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function UnknownProblems({ unknown: { error, retry } }: { unknown: NonNullable<Judgement["unknown"]> }) {
  return (
    <Problem>
      {t.workflow.problemsUnknown} <ErrorText error={error} />{" "}
      <Button onClick={retry}>{t.retryLoading}</Button>
    </Problem>
  );
}

type FixButtonProps = { title: string; fixed: string | undefined; onFix: (text: string) => void };

function FixButton({ title, fixed, onFix }: FixButtonProps) {
  if (fixed === undefined) return <span className="soft">{` ${t.workflow.fix}: ${title}`}</span>;
  return (
    <>
      {" "}
      <button type="button" className="text-button" onClick={() => onFix(fixed)}>
        {`${t.build.fix}: ${title}`}
      </button>
    </>
  );
}
