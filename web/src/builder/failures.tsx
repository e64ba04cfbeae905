// What the builder shows when the server fails: a change that was not made, and parts that are not known.
import { t } from "../strings";
import { Button } from "../ui/button";
import { ErrorText, Problem } from "../ui/problem";
import type { Builder } from "./use-builder";

/** Why the last change could not be made. A change that is kept can be made again, or discarded. */
export function ChangeFailure({ builder }: { builder: Pick<Builder, "error" | "kept" | "dismiss"> }) {
  const { error, kept, dismiss } = builder;
  if (!error) return null;
  return (
    <Problem>
      {t.build.failed} <ErrorText error={error} />{" "}
      {kept ? (
        <>
          <Button onClick={kept.retry}>{t.retryLoading}</Button>{" "}
          <Button onClick={kept.discard}>{t.build.discardChange}</Button>
        </>
      ) : (
        <Button onClick={dismiss}>{t.close}</Button>
      )}
    </Problem>
  );
}

/** The parts that are not shown: they are being read, or cannot be. */
export function UnknownParts({ unknown }: Pick<Builder, "unknown">) {
  if (!unknown) return <p className="empty">{t.loading}</p>;
  return (
    <div className="builder-problem">
      <Problem>
        {t.build.partsUnknown} <ErrorText error={unknown.error} />{" "}
        <Button onClick={unknown.retry}>{t.retryLoading}</Button>
      </Problem>
    </div>
  );
}
