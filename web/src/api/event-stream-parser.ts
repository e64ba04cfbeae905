// Splits server-sent events.

export type StreamedEvent = { name: string; data: string; id?: string };

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
  let id: string | undefined;
  const data: string[] = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
    else if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("id:")) id = line.slice(3).trim();
  }
  return data.length > 0 ? { name, data: data.join("\n"), ...(id && { id }) } : undefined;
}
