// The problems of a definition: place, code, message and what to do.
import { t } from "../../strings";
import { Icon } from "../../ui/icon";
import { CodeLink } from "../../ui/problem";
import type { Judgement, ServerProblem } from "./use-draft";

type ProblemListProps = { judgement: Judgement; onOpen: (problem: ServerProblem) => void };

export function ProblemList({ judgement, onOpen }: ProblemListProps) {
  const { problems, isChecking } = judgement;
  return (
    <section className="problems" aria-label={t.workflow.problems} aria-busy={isChecking}>
      <h2>
        {t.workflow.problems} <span className="faint number">{problems.length}</span>
      </h2>
      {problems.length === 0 && (
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
                <span className="soft">{` ${t.workflow.fix}: ${problem.fix}`}</span>
              )}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
