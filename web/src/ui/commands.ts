// What can be done in the place that is shown. The palette lists it.
import { useEffect, useRef } from "react";
import type { IconName } from "./icon";

export type Command = { title: string; icon: IconName; run: () => void };

const offers = new Map<symbol, readonly Command[]>();

/** Offers commands while the component is shown. */
export function useCommands(commands: readonly (Command | false | undefined)[]): void {
  const key = useRef(Symbol());
  useEffect(() => {
    const own = key.current;
    offers.set(
      own,
      commands.filter((one) => one !== false && one !== undefined),
    );
    return () => void offers.delete(own);
  });
}

/** The commands of everything that is shown. */
export function listCommands(): Command[] {
  return [...offers.values()].flat();
}
