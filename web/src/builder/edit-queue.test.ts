import { expect, test } from "vitest";
import type { Edit } from "./definition";
import { type Applied, EditQueue } from "./edit-queue";
import type { Path } from "./path";

const REFUSED = new Error("refused");
const UNREACHABLE = new Error("unreachable");

function editOf(name: string): Edit[] {
  return [{ do: "remove", path: [name] }];
}

const keep = (edits: readonly Edit[]) => [...edits];

/** A queue whose changes fail with the errors of `failures`, by name. */
function createQueue(failures: Record<string, Error | undefined>, rebase: Applied["rebase"] = keep) {
  const made: string[] = [];
  const queue = new EditQueue({
    apply: async (edits) => {
      const [edit] = edits;
      const name = edit?.do === "remove" ? String(edit.path[0]) : "";
      const failure = failures[name];
      if (failure) throw failure;
      made.push(name);
      const part: Path = [name];
      return { part, rebase };
    },
    whyRefused: (error) => (error === REFUSED ? "refused" : undefined),
    onChange: () => undefined,
  });
  return { queue, made };
}

test("changes are made one after another, and a refused one stops none", async () => {
  const { queue, made } = createQueue({ b: REFUSED });
  const outcomes = await Promise.all(["a", "b", "c"].map((name) => queue.push(editOf(name))));
  expect(outcomes.map((outcome) => outcome.state)).toEqual(["done", "refused", "done"]);
  expect(made).toEqual(["a", "c"]);
  expect(queue.isEmpty).toBe(true);
});

test("what the server could not be asked for is kept, and asked for first", async () => {
  const failures: Record<string, Error | undefined> = { a: UNREACHABLE };
  const { queue, made } = createQueue(failures);
  expect(await queue.push(editOf("a"))).toEqual({ state: "kept" });
  expect(await queue.run()).toBe(false);
  failures.a = undefined;
  expect((await queue.push(editOf("b"))).state).toBe("done");
  expect(made).toEqual(["a", "b"]);
});

test("kept changes can be given up, and later ones are made", async () => {
  const { queue, made } = createQueue({ a: UNREACHABLE });
  await queue.push(editOf("a"));
  await queue.run();
  queue.discard();
  expect(queue.isEmpty).toBe(true);
  await queue.push(editOf("b"));
  expect(made).toEqual(["b"]);
});

test("changes that wait are adapted to those before them, or refused if their part is gone", async () => {
  const rebase = (edits: readonly Edit[]) => {
    const [edit] = edits;
    return edit?.do === "remove" && edit.path[0] === "b" ? editOf("b2") : undefined;
  };
  const { queue, made } = createQueue({}, rebase);
  const outcomes = await Promise.all(["a", "b"].map((name) => queue.push(editOf(name))));
  expect([outcomes.map(({ state }) => state), made]).toEqual([
    ["done", "done"],
    ["a", "b2"],
  ]);
  const [, gone] = await Promise.all(["a", "c"].map((name) => queue.push(editOf(name))));
  expect([gone?.state, queue.isEmpty]).toEqual(["refused", true]);
});
