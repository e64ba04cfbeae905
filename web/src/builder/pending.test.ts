import { expect, test } from "vitest";
import { Pending } from "./pending";

const noDiscard = () => undefined;

test("everything is settled, also what is entered meanwhile", async () => {
  const pending = new Pending();
  const order: string[] = [];
  const add = (name: string, then?: () => void) => {
    const owner = {};
    pending.add(
      owner,
      async () => {
        order.push(name);
        pending.remove(owner);
        then?.();
        return true;
      },
      noDiscard,
    );
  };
  add("first", () => add("second"));
  expect(await pending.settle()).toBe(true);
  expect(order).toEqual(["first", "second"]);
  expect(pending.hasAny()).toBe(false);
});

test("what cannot be settled stays pending", async () => {
  const pending = new Pending();
  const changes: boolean[] = [];
  pending.subscribe(() => changes.push(pending.hasAny()));
  const owner = {};
  pending.add(
    owner,
    async () => {
      pending.noteProblem(owner, "“Limit”: This is not a number.");
      return false;
    },
    noDiscard,
  );
  expect(await pending.settle()).toBe(false);
  expect(pending.readProblem()).toBe("“Limit”: This is not a number.");
  expect(changes).toEqual([true]);
  pending.remove(owner);
  expect(pending.readProblem()).toBeUndefined();
});

test("what is not in the text can be given up", () => {
  const pending = new Pending();
  const owners = [{}, {}];
  for (const owner of owners)
    pending.add(
      owner,
      async () => false,
      () => pending.remove(owner),
    );
  pending.discard();
  expect(pending.hasAny()).toBe(false);
});
