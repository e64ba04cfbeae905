// The notifications that workflows have sent to the viewer.
import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMay } from "../../api/caller";
import { api, read, type Schemas } from "../../api/client";
import { t } from "../../strings";
import { showDirections } from "../../ui/bidi";
import { Button } from "../../ui/button";
import { formatTime } from "../../ui/format";
import { ErrorBox } from "../../ui/problem";

type Notification = Schemas["Notification"];

const LIMIT = 50;
const REFRESH_MS = 5000;

const notificationsQuery = queryOptions({
  queryKey: ["notifications"],
  queryFn: () => read(api.GET("/api/v1/notifications", { params: { query: { limit: LIMIT } } })),
  refetchInterval: REFRESH_MS,
});

/** The notifications; nothing if there are none. They are open while nothing else waits. */
export function WorkflowNotifications({ isOpen }: { isOpen: boolean }) {
  const { data } = useQuery(notificationsQuery);
  if (!data || data.length === 0) return null;
  const unread = data.filter(({ read: isRead }) => !isRead).length;
  return (
    <details className="panel inbox-notifications" open={isOpen || undefined}>
      <summary>
        {t.inbox.notifications}
        {unread > 0 && <span className="badge">{t.inbox.unread(unread)}</span>}
      </summary>
      <ul>
        {data.map((notification) => (
          <NotificationItem key={notification.id} notification={notification} />
        ))}
      </ul>
    </details>
  );
}

function NotificationItem({ notification }: { notification: Notification }) {
  const queries = useQueryClient();
  const mayMark = useMay("write");
  const mark = useMutation({
    mutationFn: () =>
      read(api.POST("/api/v1/notifications/{id}/read", { params: { path: { id: notification.id } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: notificationsQuery.queryKey }),
  });
  return (
    <li data-unread={!notification.read || undefined}>
      <div className="inbox-notification-head">
        <strong>{showDirections(notification.title)}</strong>
        <span className="faint number">{formatTime(Date.parse(notification.created_at))}</span>
        {!notification.read && mayMark && (
          <Button look="quiet" icon="check" disabled={mark.isPending} onClick={() => mark.mutate()}>
            {t.inbox.markRead}
          </Button>
        )}
      </div>
      <p className="inbox-notification">{showDirections(notification.body)}</p>
      {mark.error && <ErrorBox error={mark.error} />}
    </li>
  );
}
