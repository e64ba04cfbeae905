// Notifications of the browser about runs that wait, if the viewer permits them. The frame of the page sends them, whatever
// place is open.

import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useSyncExternalStore } from "react";
import { waitingQuery } from "../api/queries";
import { nameRun } from "../run/name";
import { t } from "../strings";

const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function readPermission(): NotificationPermission {
  return "Notification" in window ? Notification.permission : "denied";
}

/** Whether the viewer permits notifications. */
export function usePermission(): NotificationPermission {
  return useSyncExternalStore(subscribe, readPermission);
}

export async function askPermission(): Promise<void> {
  await Notification.requestPermission();
  for (const listener of listeners) listener();
}

/** Notifies of runs that begin to wait while the page is in the background. */
export function useNotifications(onOpen: (run: string) => void): void {
  const isPermitted = usePermission() === "granted";
  const { data } = useQuery({ ...waitingQuery, refetchIntervalInBackground: isPermitted });
  const known = useRef<ReadonlySet<string> | undefined>(undefined);
  const open = useRef(onOpen);
  open.current = onOpen;
  useEffect(() => {
    if (!data) return;
    const before = known.current;
    known.current = new Set(data.map((run) => run.run_id));
    if (!before || !isPermitted || !document.hidden) return;
    for (const run of data.filter((one) => !before.has(one.run_id))) {
      const notification = new Notification(t.inbox.notified, { body: nameRun(run.name), tag: run.run_id });
      notification.onclick = () => {
        window.focus();
        open.current(run.run_id);
      };
    }
  }, [data, isPermitted]);
}
