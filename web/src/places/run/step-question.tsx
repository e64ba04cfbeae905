// The question of a step on the page of its run. It stays when someone else has answered it, with what was entered here.
import { useRef, useState } from "react";
import type { StepState } from "../../run/fold";
import type { Question } from "../../run/record";
import { AnswerForm } from "../../ui/answer-form";
import { explainClosed, wasSeen } from "../../ui/closed-question";
import type { RunView } from "./use-run";

type StepQuestionProps = { view: RunView; step: StepState; onDone: () => void };

export function StepQuestion({ view, step, onDone }: StepQuestionProps) {
  const asked = useRef<{ question: Question; since: number }>(undefined);
  const [sent, setSent] = useState<Question>();
  if (step.question) {
    if (asked.current?.question !== step.question)
      asked.current = { question: step.question, since: Date.now() };
  } else if (asked.current && !wasSeen(asked.current.since, Date.now())) {
    asked.current = undefined;
  }
  const question = asked.current?.question;
  if (!question || question === sent) return null;
  return (
    <AnswerForm
      run={view.follower.run}
      path={step.path}
      question={question}
      onDone={onDone}
      onSent={() => setSent(question)}
      closed={step.question ? undefined : explainClosed(view.state, step.path)}
    />
  );
}
