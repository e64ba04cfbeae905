// What this browser keeps of a workflow: the draft that the viewer keeps, and the unsaved changes of each tab, in case the
// tab ends. None of them is a version yet. Several people may use one browser, so each of them has places of their own.
import { nameOwner, type Owner } from "../../api/owner";
import type { Source } from "./use-draft";

/** A changed source, the tag of the version that it was made from, and when it was kept. */
export type Draft = { source: Source; tag: string | null; at: number };

/** The unsaved changes of a tab, with the name under which the browser keeps them, and whether they are those of this page. */
export type TabDraft = Draft & { key: string; isOwn: boolean };

/** `draft` was kept by the viewer, `unsaved` by a tab. */
export type DraftKind = "draft" | "unsaved";

/** The id of this page, until it is loaded again. The storage of a tab cannot hold it: a duplicated tab has a copy of that. */
const TAB = Math.random().toString(36).slice(2);
/** Unsaved changes of so many tabs are kept for a workflow, and none for longer than this. */
const MAX_TABS = 5;
const MAX_AGE_MS = 30 * 24 * 3_600_000;

/**
 * Where this browser keeps unsaved changes of a workflow. Several servers can have one origin, behind
 * different paths.
 */
export function nameDraftPlace(owner: Owner, workflow: string): string {
  return `${nameOwner(owner)} ${readBasePath()} ${workflow}`;
}

function readBasePath(): string {
  return new URL(document.baseURI).pathname;
}

function keyOf(place: string, kind: DraftKind): string {
  return `${kind} ${place}`;
}

/** Forgets what an earlier version of this page kept: it has the path in the place of the owner. */
function removeUnowned(): void {
  tryStorage(() => {
    const starts = ["draft", "unsaved"].map((kind) => `${kind} ${readBasePath()} `);
    for (const key of Object.keys(localStorage)) {
      if (starts.some((start) => key.startsWith(start))) localStorage.removeItem(key);
    }
  }, undefined);
}

removeUnowned();

/** The key of this tab. An id has no spaces, so no other workflow begins like it. */
function ownKey(place: string): string {
  return `${keyOf(place, "unsaved")} ${TAB}`;
}

function listTabKeys(place: string): string[] {
  const start = `${keyOf(place, "unsaved")} `;
  return Object.keys(localStorage).filter((key) => key.startsWith(start));
}

/** A browser without storage keeps no drafts. */
function tryStorage<Result>(use: () => Result, otherwise: Result): Result {
  try {
    return use();
  } catch {
    return otherwise;
  }
}

/** Which changes this browser has in a place, if any. */
export function findDraft(place: string): DraftKind | undefined {
  return tryStorage(() => {
    if (localStorage.getItem(keyOf(place, "draft")) !== null) return "draft";
    return listTabKeys(place).length > 0 ? "unsaved" : undefined;
  }, undefined);
}

export function readDraft(place: string): Draft | undefined {
  return tryStorage(() => readKept(keyOf(place, "draft")), undefined);
}

function readKept(key: string): Draft | undefined {
  return (JSON.parse(localStorage.getItem(key) ?? "null") as Draft | null) ?? undefined;
}

/** Keeps a draft; undefined if the browser has no room for it. */
export function storeDraft(place: string, draft: Omit<Draft, "at">): Draft | undefined {
  const kept = { ...draft, at: Date.now() };
  return tryStorage(() => {
    localStorage.setItem(keyOf(place, "draft"), JSON.stringify(kept));
    return kept;
  }, undefined);
}

export function removeDraft(place: string): void {
  tryStorage(() => localStorage.removeItem(keyOf(place, "draft")), undefined);
}

/** The unsaved changes of all tabs, those of this one first, then the newest. Those that are too many or too old are removed. */
export function collectUnsaved(place: string): TabDraft[] {
  return tryStorage(() => {
    const own = ownKey(place);
    const found = listTabKeys(place).flatMap((key) => {
      const draft = tryStorage(() => readKept(key), undefined);
      return draft ? [{ ...draft, key, isOwn: key === own }] : [];
    });
    found.sort((one, other) => Number(other.isOwn) - Number(one.isOwn) || other.at - one.at);
    const isRecent = ({ at }: TabDraft) => Date.now() - at < MAX_AGE_MS;
    const kept = found.filter(isRecent).slice(0, MAX_TABS);
    for (const draft of found) if (!kept.includes(draft)) removeUnsaved(draft);
    return kept;
  }, []);
}

/** Keeps the unsaved changes of this tab; false if the browser has no room for them. */
export function storeUnsaved(place: string, draft: Omit<Draft, "at">): boolean {
  return tryStorage(() => {
    localStorage.setItem(ownKey(place), JSON.stringify({ ...draft, at: Date.now() }));
    collectUnsaved(place);
    return true;
  }, false);
}

/** Forgets the unsaved changes of this tab. */
export function removeOwnUnsaved(place: string): void {
  tryStorage(() => localStorage.removeItem(ownKey(place)), undefined);
}

/** Forgets unsaved changes that were collected. What their tab has kept since then stays. */
export function removeUnsaved({ key, at }: TabDraft): void {
  tryStorage(() => {
    if (readKept(key)?.at === at) localStorage.removeItem(key);
  }, undefined);
}
