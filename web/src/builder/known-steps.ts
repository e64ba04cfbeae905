// The steps of parts while a definition has errors: it has no plan then, and the last graph stays.
import type { Inspection, Part } from "./definition";
import { matchParts } from "./match-parts";

/** `parts` with the steps that the same parts have in `last`. */
export function keepSteps(parts: readonly Part[], last: readonly Part[]): Part[] {
  const steps = new Map<number, string>();
  matchParts(last, parts).forEach((at, before) => {
    const step = last[before]?.step;
    if (at !== undefined && step != null) steps.set(at, step);
  });
  return parts.map((part, at) => ({ ...part, step: steps.get(at) ?? null }));
}

export function hasSteps({ parts }: Inspection): boolean {
  return parts.some(({ step }) => step != null);
}
