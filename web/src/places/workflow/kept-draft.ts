// Drafts that this browser keeps: changes of a workflow that are not a version yet.
import type { Source } from "./use-draft";

/** A changed source, the tag of the version that it was made from, and when it was kept. */
export type Draft = { source: Source; tag: string | null; at: number };

/** Several servers can have one origin, behind different paths. */
function keyOf(workflow: string): string {
  return `draft ${new URL(document.baseURI).pathname} ${workflow}`;
}

export function readDraft(workflow: string): Draft | undefined {
  try {
    const draft = JSON.parse(localStorage.getItem(keyOf(workflow)) ?? "null") as Draft | null;
    return draft ?? undefined;
  } catch {
    return undefined;
  }
}

/** Keeps a draft; undefined if the browser has no room for it. */
export function storeDraft(workflow: string, draft: Omit<Draft, "at">): Draft | undefined {
  const kept = { ...draft, at: Date.now() };
  try {
    localStorage.setItem(keyOf(workflow), JSON.stringify(kept));
    return kept;
  } catch {
    return undefined;
  }
}

export function removeDraft(workflow: string): void {
  try {
    localStorage.removeItem(keyOf(workflow));
  } catch {
    // A browser without storage keeps no drafts.
  }
}
