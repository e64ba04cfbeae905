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

test("what one user changes is not offered to another one of the same browser", async () => {
  const tab = await openTab();
  const callers = [
    { user: "ann", key: "a" },
    { user: "bob", key: "b" },
    { user: "ann b", key: "c" },
    { user: null, key: "ann" },
    { user: null, key: "ops" },
    { user: null, key: null },
  ];
  const [own, ...others] = callers.map((caller) => tab.nameDraftPlace(caller, "w"));
  if (own === undefined) throw new Error("no place");
  tab.storeDraft(own, draftOf("kept"));
  tab.storeUnsaved(own, draftOf("unsaved"));
  for (const place of others) {
    expect([tab.findDraft(place), tab.readDraft(place), textsOf(tab, place)]).toEqual([
      undefined,
      undefined,
      [],
    ]);
  }
  // Another key of the same user, in another tab.
  const other = await openTab();
  const again = other.nameDraftPlace({ user: "ann", key: "new" }, "w");
  expect(other.readDraft(again)?.source.files.a).toBe("kept");
  expect(textsOf(other, again)).toEqual(["unsaved"]);
});

test("what an earlier version kept without a user is removed, for this server only", async () => {
  const earlier = ["draft /studio/ w", "unsaved /studio/ w abc"];
  const kept = ["draft /other/ w", "theme"];
  for (const key of [...earlier, ...kept]) localStorage.setItem(key, JSON.stringify(draftOf("x")));
  await openTab();
  expect(Object.keys(localStorage)).toEqual(kept);
});
