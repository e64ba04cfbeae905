import { beforeEach, expect, test, vi } from "vitest";

/** The storage of a browser. */
class FakeStorage {
  [key: string]: unknown;
  getItem(key: string) {
    return Object.hasOwn(this, key) ? (this[key] as string) : null;
  }
  setItem(key: string, value: string) {
    this[key] = value;
  }
  removeItem(key: string) {
    delete this[key];
  }
}

const draftOf = (text: string) => ({ source: { entry: "a", files: { a: text } }, tag: null });

type Tab = typeof import("./kept-draft");

/** Loads the page, as a new tab does, or one that is loaded again. */
async function openTab(): Promise<Tab> {
  vi.resetModules();
  return import("./kept-draft");
}

const textsOf = (tab: Tab, workflow: string) =>
  tab.collectUnsaved(workflow).map((draft) => draft.source.files.a);

beforeEach(() => {
  vi.stubGlobal("document", { baseURI: "http://localhost/studio/" });
  vi.stubGlobal("localStorage", new FakeStorage());
  vi.useFakeTimers({ now: 1_000_000_000_000 });
});

test("a tab that saves removes its own changes only", async () => {
  const one = await openTab();
  one.storeUnsaved("w", draftOf("one"));
  vi.advanceTimersByTime(1000);
  const other = await openTab();
  other.storeUnsaved("w", draftOf("other"));
  other.storeUnsaved("w2", draftOf("another workflow"));
  expect(textsOf(one, "w")).toEqual(["one", "other"]);
  expect(one.collectUnsaved("w").map(({ isOwn }) => isOwn)).toEqual([true, false]);
  one.removeOwnUnsaved("w");
  expect(textsOf(one, "w")).toEqual(["other"]);
  const kinds = ["w", "w2", "w3"].map(one.findDraft);
  expect(kinds).toEqual(["unsaved", "unsaved", undefined]);
});

test("changes of tabs are bounded in number and age", async () => {
  let last = await openTab();
  for (let tab = 0; tab < 8; tab++) {
    last = await openTab();
    vi.advanceTimersByTime(1000);
    last.storeUnsaved("w", draftOf(`${tab}`));
  }
  expect(textsOf(last, "w")).toEqual(["7", "6", "5", "4", "3"]);
  vi.advanceTimersByTime(31 * 24 * 3_600_000);
  expect(textsOf(last, "w")).toEqual([]);
  expect(last.findDraft("w")).toBeUndefined();
});

test("a page that is loaded again is offered what it kept before, as that of another tab", async () => {
  const before = await openTab();
  before.storeUnsaved("w", draftOf("before"));
  const again = await openTab();
  expect(again.collectUnsaved("w").map(({ isOwn, source }) => [isOwn, source.files.a])).toEqual([
    [false, "before"],
  ]);
  again.removeOwnUnsaved("w");
  expect(textsOf(again, "w")).toEqual(["before"]);
});

test("what was collected is removed, and what its tab has kept since then is not", async () => {
  const one = await openTab();
  one.storeUnsaved("w", draftOf("one"));
  const other = await openTab();
  const [collected] = other.collectUnsaved("w");
  if (!collected) throw new Error("nothing was collected");
  vi.advanceTimersByTime(1000);
  one.storeUnsaved("w", draftOf("one goes on"));
  other.removeUnsaved(collected);
  expect(textsOf(other, "w")).toEqual(["one goes on"]);
  for (const draft of other.collectUnsaved("w")) other.removeUnsaved(draft);
  expect(textsOf(other, "w")).toEqual([]);
});
