// A run in a list: the name of its workflow, and its input, by which it differs from others of the workflow.

import type { Schemas } from "../api/client";
import { nameRun } from "../run/name";
import { showDirections } from "./bidi";

export function RunTitle({ run }: { run: Pick<Schemas["RunItem"], "name" | "input"> }) {
  return (
    <span className="cut" title={run.input ?? undefined}>
      {nameRun(run.name)} {run.input && <span className="soft">{showDirections(run.input)}</span>}
    </span>
  );
}
