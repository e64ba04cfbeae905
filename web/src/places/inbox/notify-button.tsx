// Notifications of the browser while the page is in the background, if the viewer permits them.
import { useEffect, useRef, useState } from "react";
import { t } from "../../strings";
import { Button } from "../../ui/button";

export function NotifyButton({ waiting }: { waiting: number }) {
  const isPossible = "Notification" in window;
  const [permission, setPermission] = useState(isPossible ? Notification.permission : "denied");
  const before = useRef(waiting);
  useEffect(() => {
    if (permission === "granted" && document.hidden && waiting > before.current)
      new Notification(t.inbox.notified);
    before.current = waiting;
  }, [permission, waiting]);
  if (permission !== "default") return null;
  return (
    <Button onClick={() => void Notification.requestPermission().then(setPermission)}>
      {t.inbox.notify}
    </Button>
  );
}
