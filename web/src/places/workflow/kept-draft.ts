// Drafts that this browser keeps: changes of a workflow that are not a version yet.
import type { Source } from "./use-draft";

/** A changed source, the tag of the version that it was made from, and when it was kept. */
export type Draft = { source: Source; tag: string | null; at: number };

/** `draft` was kept by the viewer, `unsaved` by the page itself, in case the tab ends. */
export type DraftKind = "draft" | "unsaved";

/** Several servers can have one origin, behind different paths. */
function keyOf(workflow: string, kind: DraftKind): string {
  return `${kind} ${new URL(document.baseURI).pathname} ${workflow}`;
}

/** Which changes of a workflow this browser has, if any. */
export function findDraft(workflow: string): DraftKind | undefined {
  try {
    return (["draft", "unsaved"] as const).find(
      (kind) => localStorage.getItem(keyOf(workflow, kind)) !== null,
    );
  } catch {
    return undefined;
  }
}

export function readDraft(workflow: string, kind: DraftKind = "draft"): Draft | undefined {
  try {
    const draft = JSON.parse(localStorage.getItem(keyOf(workflow, kind)) ?? "null") as Draft | null;
    return draft ?? undefined;
  } catch {
    return undefined;
  }
}

/** Keeps a draft; undefined if the browser has no room for it. */
export function storeDraft(
  workflow: string,
  draft: Omit<Draft, "at">,
  kind: DraftKind = "draft",
): Draft | undefined {
  const kept = { ...draft, at: Date.now() };
  try {
    localStorage.setItem(keyOf(workflow, kind), JSON.stringify(kept));
    return kept;
  } catch {
    return undefined;
  }
}

export function removeDraft(workflow: string, kind: DraftKind = "draft"): void {
  try {
    localStorage.removeItem(keyOf(workflow, kind));
  } catch {
    // A browser without storage keeps no drafts.
  }
}
