// Server-sent events over fetch, because EventSource cannot send the header with the key.
import { SERVER } from "./client";
import { keyHeaders, requestKey } from "./key";

export type StreamedEvent = { name: string; data: string };

/** Splits a text that arrives in pieces into events. */
export class EventParser {
  private rest = "";

  /** The events that are complete with this piece. */
  push(piece: string): StreamedEvent[] {
    const text = this.rest + piece;
    const end = text.lastIndexOf("\n\n");
    if (end < 0) {
      this.rest = text;
      return [];
    }
    this.rest = text.slice(end + 2);
    return text
      .slice(0, end)
      .split("\n\n")
      .map(parseEvent)
      .filter((event) => event !== undefined);
  }
}

function parseEvent(block: string): StreamedEvent | undefined {
  let name = "message";
  const data: string[] = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
    else if (line.startsWith("event:")) name = line.slice(6).trim();
  }
  return data.length > 0 ? { name, data: data.join("\n") } : undefined;
}

/** Reads events until the stream ends. Throws if the connection breaks or the server refuses. */
export async function readEvents(
  path: string,
  signal: AbortSignal,
  onEvents: (events: StreamedEvent[]) => void,
): Promise<void> {
  const headers = { accept: "text/event-stream", ...keyHeaders() };
  const response = await fetch(new URL(path, SERVER), { headers, signal });
  if (response.status === 401) requestKey();
  if (!response.ok || !response.body) throw new StreamRefused(response.status);
  const parser = new EventParser();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = parser.push(value);
    if (events.length > 0) onEvents(events);
  }
}

/** The server did not open the stream. */
export class StreamRefused extends Error {
  constructor(readonly status: number) {
    super(`status ${status}`);
  }
}
