// A part of the settings: its title, and its content or why there is none.
import type { ReactNode } from "react";
import { ApiError } from "../../api/client";
import { t } from "../../strings";
import { ErrorBox } from "../../ui/problem";

export function Part({ title, error, children }: { title: string; error: unknown; children: ReactNode }) {
  const isRefused = error instanceof ApiError && error.status === 403;
  return (
    <section className="panel settings-part" aria-label={title}>
      <h2>{title}</h2>
      {isRefused ? (
        <p className="soft">{t.settings.noAccess}</p>
      ) : error ? (
        <ErrorBox error={error} />
      ) : (
        children
      )}
    </section>
  );
}
