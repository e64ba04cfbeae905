// What a step sent, and what came back. The record holds hashes of requests; the server builds them again from it.
import { useQuery } from "@tanstack/react-query";
import { formatJson, type Json } from "../../api/json";
import { type StepRequest, stepQuery } from "../../api/queries";
import type { StepState } from "../../run/fold";
import { t } from "../../strings";
import { ErrorBox } from "../../ui/problem";
import { LongText, ValueView } from "../../ui/value";

type Message = { role?: Json; content?: Json };

export function StepRequests({ run, step }: { run: string; step: StepState }) {
  const { data, error } = useQuery(stepQuery(run, step));
  if (error) return <ErrorBox error={error} />;
  if (!data) return <p className="soft">{t.loading}</p>;
  const { requests } = data;
  if (requests.length === 0) return <p className="soft">{t.run.notSent}</p>;
  return requests.map(({ attempt, request }) => (
    <section key={attempt} className="request">
      {requests.length > 1 && <h3>{t.run.attempt(attempt)}</h3>}
      <Prompt messages={request.messages} />
      <ValueView value={withoutMessages(request)} label={t.run.tabs.request} copied={request} />
      <Response step={step} attempt={attempt} />
    </section>
  ));
}

/** What came back for a request, as it was recorded. */
function Response({ step, attempt }: { step: StepState; attempt: number }) {
  const value = responseTo(step, attempt);
  return value && <ValueView value={value} label={t.run.response} />;
}

/** The response to the request of an attempt; undefined while there is none. */
export function responseTo(step: StepState, attempt: number): Json | undefined {
  const one = step.tries.find(({ number }) => number === attempt);
  if (one?.error) return { error: one.error, ...one.response };
  // The output of a step is that of its last attempt.
  if (!one || one !== step.tries.at(-1) || step.phase !== "finished") return undefined;
  const { output = null, usage } = step;
  return { output, ...(usage && { usage: usage as Json }), ...one.response };
}

/** The conversation that a model was sent. */
function Prompt({ messages }: { messages: Json | undefined }) {
  if (!Array.isArray(messages)) return null;
  return (
    <ol className="prompt" aria-label={t.run.prompt}>
      {(messages as Message[]).map((message, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: messages have no identity but their position.
        <li key={at}>
          <h3>{String(message.role ?? "")}</h3>
          <LongText text={toText(message.content)} />
        </li>
      ))}
    </ol>
  );
}

/** A request as text that can be compared by line: its prompt, and then the rest. */
export function writeRequest({ request }: StepRequest): string {
  const messages = Array.isArray(request.messages) ? (request.messages as Message[]) : [];
  const prompt = messages.map((message) => `${String(message.role ?? "")}:\n${toText(message.content)}`);
  return [...prompt, formatJson(withoutMessages(request))].join("\n\n");
}

function toText(content: Json | undefined): string {
  return typeof content === "string" ? content : formatJson(content);
}

function withoutMessages(request: { [field: string]: Json }): Json {
  const { messages, ...rest } = request;
  return Array.isArray(messages) ? rest : request;
}
