// Splits server-sent events.

export type StreamedEvent = { name: string; data: string; id?: string };

/** Splits a text that arrives in pieces into events. Each piece is searched once, since an event may have many of them. */
export class EventParser {
  /** The pieces of the event that is not complete. */
  private pieces: string[] = [];
  private endsLine = false;

  /** The events that are complete with this piece. */
  push(piece: string): StreamedEvent[] {
    const mayComplete = piece.includes("\n\n") || (this.endsLine && piece.startsWith("\n"));
    this.pieces.push(piece);
    if (piece !== "") this.endsLine = piece.endsWith("\n");
    return mayComplete ? this.takeComplete() : [];
  }

  private takeComplete(): StreamedEvent[] {
    const text = this.pieces.join("");
    const end = text.lastIndexOf("\n\n");
    if (end < 0) return [];
    const rest = text.slice(end + 2);
    this.pieces = [rest];
    this.endsLine = rest.endsWith("\n");
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
