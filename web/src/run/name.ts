// The name of a run for people. The server names a run of one step after the path of the step.
import { t } from "../strings";
import { titleOf } from "./rows";

const ONLY_STEP = /^(.+), only (\/\S*)$/s;

export function nameRun(name: string): string {
  const [, workflow, path] = ONLY_STEP.exec(name) ?? [];
  if (workflow === undefined || path === undefined) return name;
  return t.run.onlyStep(workflow, titleOf(path, new Map()));
}
