// The tests of a workflow on its card: what they found last, or how many there are.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { t } from "../../strings";
import { Icon, type IconName } from "../../ui/icon";
import { judge, type TestedWorkflow, testsOf } from "../tests/of-workflow";
import { testsQuery, useTestResults } from "../tests/results";

const LOOKS: Record<ReturnType<typeof judge>["state"], { icon: IconName; state: string }> = {
  unknown: { icon: "tests", state: "queued" },
  passed: { icon: "check", state: "succeeded" },
  failed: { icon: "cross", state: "failed" },
};

export function CardTests({ workflow }: { workflow: TestedWorkflow }) {
  const { data } = useQuery(testsQuery);
  const { results } = useTestResults();
  const tests = testsOf(data ?? [], workflow);
  if (tests.length === 0) return null;
  const { state, count, failed } = judge(tests, results);
  const text = {
    unknown: t.tests.count(count),
    passed: t.tests.allPassed(count),
    failed: t.tests.someFailed(failed, count),
  }[state];
  return (
    <Link
      to="/tests"
      search={{ workflow: workflow.id }}
      className="state card-tests"
      data-state={LOOKS[state].state}
    >
      <Icon name={LOOKS[state].icon} />
      {text}
    </Link>
  );
}
