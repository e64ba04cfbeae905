// Errors and diagnostics: code, message and the page that explains the code.
import type { ReactNode } from "react";
import { ApiError, isKeyRefusal, SERVER } from "../api/client";
import { readKey } from "../api/key";
import { t } from "../strings";
import { Icon } from "./icon";
import { useTitle } from "./title";

/** A link to the page of an error code. */
export function CodeLink({ code }: { code: string }) {
  return (
    <a href={new URL(`errors/${code}`, SERVER).href} target="_blank" rel="noreferrer" title={t.errors.code}>
      {code}
    </a>
  );
}

type ProblemProps = { code?: string | undefined; severity?: string | undefined; children: ReactNode };

export function Problem({ code, severity = "error", children }: ProblemProps) {
  return (
    <div className="problem" data-severity={severity} role={severity === "error" ? "alert" : "status"}>
      <Icon name={severity === "error" ? "cross" : "warn"} />
      <div>
        {code && (
          <>
            <CodeLink code={code} />{" "}
          </>
        )}
        {children}
      </div>
    </div>
  );
}

/** What a request failed with, within a sentence. Only without an answer the server cannot be reached. */
export function ErrorText({ error }: { error: unknown }) {
  if (!(error instanceof ApiError)) return <>{t.errors.unreachable}.</>;
  return (
    <>
      {error.message} {error.code && <CodeLink code={error.code} />}
    </>
  );
}

/** Why the server refuses requests: the viewer has entered no key yet, or one that it does not accept any more. */
export function explainRefusedKey(): string {
  return readKey() === null ? t.key.needed : t.key.lost;
}

/** What a request failed with. The dialog for the key says what to do without one. */
export function ErrorBox({ error }: { error: unknown }) {
  if (isKeyRefusal(error)) return <Problem severity="warning">{explainRefusedKey()}</Problem>;
  if (!(error instanceof ApiError)) {
    return <Problem>{t.errors.unreachable}</Problem>;
  }
  return (
    <Problem code={error.code}>
      {error.message}
      {error.problems.map((problem) => (
        <p key={`${problem.line}:${problem.column}:${problem.message}`}>
          {problem.line ? `${t.workflow.line(problem.line, problem.column ?? 1)}: ` : ""}
          {problem.message}
        </p>
      ))}
    </Problem>
  );
}

type EmptyProps = { title: string; children?: ReactNode };

/** An empty list: what to do next. */
export function Empty({ title, children }: EmptyProps) {
  return (
    <div className="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** A place without content. */
export function EmptyPlace({ title, children }: EmptyProps) {
  useTitle(title);
  return (
    <div className="empty">
      <h1>{title}</h1>
      {children}
    </div>
  );
}
