// Texts with places to fill in: the Language Server Protocol writes them otherwise than CodeMirror.

/** A snippet of the Language Server Protocol as one of CodeMirror. Of several choices the first is written. */
export function toSnippet(text: string): string {
  let out = "";
  for (let at = 0; at < text.length; at += 1) {
    const rest = text.slice(at);
    const escaped = /^\\([$}\\])/.exec(rest);
    const place = /^\$(?:\{\d+(?::([^}]*)|\|([^|}]*)\|)?\}|\d+)/.exec(rest);
    if (escaped) {
      out += escaped[1];
      at += 1;
    } else if (place) {
      const choice = place[2]?.split(",")[0];
      out += `\${${(place[1] ?? choice ?? "").replaceAll(/[{}]/g, "")}}`;
      at += place[0].length - 1;
    } else {
      out += text[at];
    }
  }
  return out;
}
