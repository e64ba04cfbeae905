// The notifications that workflows have sent to the viewer.
import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMay } from "../../api/caller";
import { api, read, type Schemas } from "../../api/client";
import { t } from "../../strings";
import { showDirections } from "../../ui/bidi";
import { Button } from "../../ui/button";
import { formatTime } from "../../ui/format";
import { ErrorBox } from "../../ui/problem";

type Message = Schemas["Notification"];

const LIMIT = 50;
const REFRESH_MS = 5000;

const messagesQuery = queryOptions({
  queryKey: ["notifications"],
  queryFn: () => read(api.GET("/api/v1/notifications", { params: { query: { limit: LIMIT } } })),
  refetchInterval: REFRESH_MS,
});

/** The notifications; nothing if there are none. They are open while nothing else waits. */
export function Messages({ isOpen }: { isOpen: boolean }) {
  const { data } = useQuery(messagesQuery);
  if (!data || data.length === 0) return null;
  const unread = data.filter((message) => !message.read).length;
  return (
    <details className="panel inbox-messages" open={isOpen || undefined}>
      <summary>
        {t.inbox.messages}
        {unread > 0 && <span className="badge">{t.inbox.unread(unread)}</span>}
      </summary>
      <ul>
        {data.map((message) => (
          <MessageItem key={message.id} message={message} />
        ))}
      </ul>
    </details>
  );
}

function MessageItem({ message }: { message: Message }) {
  const queries = useQueryClient();
  const mayMark = useMay("write");
  const mark = useMutation({
    mutationFn: () =>
      read(api.POST("/api/v1/notifications/{id}/read", { params: { path: { id: message.id } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: messagesQuery.queryKey }),
  });
  return (
    <li data-unread={!message.read || undefined}>
      <div className="inbox-message-head">
        <strong>{showDirections(message.title)}</strong>
        <span className="faint number">{formatTime(Date.parse(message.created_at))}</span>
        {!message.read && mayMark && (
          <Button look="quiet" icon="check" disabled={mark.isPending} onClick={() => mark.mutate()}>
            {t.inbox.markRead}
          </Button>
        )}
      </div>
      <p className="inbox-message">{showDirections(message.body)}</p>
      {mark.error && <ErrorBox error={mark.error} />}
    </li>
  );
}
