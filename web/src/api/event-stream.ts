// Server-sent events over fetch, because EventSource cannot send the header with the key.
import { SERVER } from "./client";
import { EventParser, type StreamedEvent } from "./event-stream-parser";
import { keyHeaders, requestKey } from "./key";

/** Reads events until the stream ends. Throws if the connection breaks or the server refuses. */
export async function readEvents(
  path: string,
  signal: AbortSignal,
  onEvents: (events: StreamedEvent[]) => void,
  request: RequestInit = {},
): Promise<void> {
  const headers = { accept: "text/event-stream", ...keyHeaders(), ...request.headers };
  const response = await fetch(new URL(path, SERVER), { ...request, headers, signal });
  if (response.status === 401) requestKey();
  if (!response.ok || !response.body) throw new StreamRefused(response.status, await response.text());
  const parser = new EventParser();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const events = parser.push(value);
      if (events.length > 0) onEvents(events);
    }
  } catch (error) {
    // A reader that refuses an event needs no more of them.
    void reader.cancel().catch(() => {});
    throw error;
  }
}

/** The server did not open the stream. */
export class StreamRefused extends Error {
  constructor(
    readonly status: number,
    /** The body of the response. */
    readonly body = "",
  ) {
    super(`status ${status}`);
  }
}
