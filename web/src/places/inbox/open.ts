// The open item of the inbox, and the open part of it. Answers of others never move the viewer to another item.
import type { Json } from "../../api/json";
import type { RunState, StepState } from "../../run/fold";
import { isFinal, type Question } from "../../run/record";
import { wasSeen } from "../../ui/closed-question";
import { isRecord } from "../../ui/value";

/** The open item, with the address for which it was opened. */
export type Opened<Run> = { run: Run; wanted: string | undefined };

/** The item to show: the same one until the viewer wants another, also when it waits no longer. */
export function chooseItem<Run extends { run_id: string }>(
  items: readonly Run[],
  wanted: string | undefined,
  before: Opened<Run> | undefined,
): Opened<Run> | undefined {
  const find = (id: string | undefined) => items.find((run) => run.run_id === id);
  if (before && (wanted === before.wanted || wanted === before.run.run_id)) {
    return { wanted, run: find(before.run.run_id) ?? before.run };
  }
  // A link to an item that no longer waits opens no other one, which could be answered by mistake.
  const run = wanted === undefined ? items[0] : find(wanted);
  return run && { run, wanted };
}

/** Whether the inputs of a run say nothing. */
export function isEmptyInput(inputs: Json): boolean {
  return inputs === null || inputs === "" || (isRecord(inputs) && Object.keys(inputs).length === 0);
}

/** Something that waits for a person: a question, or an uncertain effect if there is none. */
export type Waiting = { run: string; path: string; question?: Question | undefined; step?: StepState };

/** Everything that waits in a run, also in its child runs. A run that has ended waits for nothing. */
export function listWaiting(run: string, state: RunState): Waiting[] {
  if (isFinal(state.status)) return [];
  const own = state.steps
    .filter((step) => !state.children.has(step.path) && (step.question || step.phase === "uncertain"))
    .map((step) => ({ run, path: step.path, question: step.question, step }));
  const children = [...state.children.values()].flatMap((child) =>
    (child.open ?? []).map(({ path, question }) => ({ run: child.run, path, question })),
  );
  return [...own, ...children];
}

export type Shown = {
  waiting: Waiting;
  isOpen: boolean;
  /** When it was first shown, in milliseconds. */
  since: number;
};

export function keyOf({ run, path }: Waiting): string {
  return `${run} ${path}`;
}

/** The shown items: those that wait now, and those that waited before, were seen, and were not answered here. */
export function keepShown(
  before: readonly Shown[],
  now: readonly Waiting[],
  sent: ReadonlySet<string>,
  time = Date.now(),
): Shown[] {
  const open = new Map(now.map((waiting) => [keyOf(waiting), waiting]));
  const kept = before.flatMap(({ waiting, isOpen, since }): Shown[] => {
    const key = keyOf(waiting);
    const still = open.get(key);
    open.delete(key);
    if (still) return [{ waiting: still, isOpen: true, since }];
    if (sent.has(key) || (isOpen && !wasSeen(since, time))) return [];
    return [{ waiting, isOpen: false, since }];
  });
  return [...kept, ...[...open.values()].map((waiting) => ({ waiting, isOpen: true, since: time }))];
}
