// Asks the viewer to permit notifications.
import { t } from "../../strings";
import { Button } from "../../ui/button";
import { askPermission, usePermission } from "../../ui/notifications";

export function NotifyButton() {
  if (usePermission() !== "default") return null;
  return <Button onClick={() => void askPermission()}>{t.inbox.notify}</Button>;
}
