// What can be done with a part: with buttons, with keys, and from the clipboard.
import { useEffect } from "react";
import type { Json } from "../api/json";
import { ByteMap } from "../places/workflow/bytes";
import { t } from "../strings";
import { copyText } from "../ui/copy";
import { isTyping, useKeys } from "../ui/keyboard";
import { readCopied, writeCopied } from "./clipboard";
import type { Edit, Inspection, Part, Source } from "./definition";
import type { Outcome } from "./edit-queue";
import { addNeeded, findNeeded } from "./needed";
import { type PartActions, WHOLE } from "./part-list";
import { titleOf } from "./part-name";
import type { Path } from "./path";
import { END, listOf, positionOf } from "./siblings";

type ActionInput = {
  inspection: Inspection | undefined;
  source: Source;
  format: string;
  change: (edits: Edit[]) => Promise<Outcome>;
  show: (key: string, address: string | undefined) => void;
  setAdding: (list: string) => void;
  setNotice: (text: string) => void;
};

export function usePartActions({
  inspection,
  source,
  format,
  change,
  show,
  setAdding,
  setNotice,
}: ActionInput): PartActions {
  const pathOf = (part: Part) => part.path as Path;
  const siblings = (part: Part) =>
    inspection?.parts.filter((one) => one.list === part.list && one.parent === part.parent) ?? [];
  const move = (part: Part, to: number) => {
    if (to < 0 || to >= siblings(part).length) return;
    void change([{ do: "move", path: pathOf(part), at: to }]);
  };
  return {
    add: setAdding,
    move: (part, by) => move(part, positionOf(inspection, part) + by),
    moveTo: (part, target) => move(part, positionOf(inspection, target)),
    duplicate: (part) => void change([{ do: "duplicate", path: pathOf(part) }]),
    remove: (part) => {
      show(WHOLE, undefined);
      void change([{ do: "remove", path: pathOf(part) }]);
    },
    copy: (part) => {
      const text = source.files[source.entry] ?? "";
      const map = new ByteMap(text);
      const copied = textOfPart(text, map, inspection, part);
      const needs = (inspection ? findNeeded(inspection, part) : []).flatMap((one) => {
        const { id } = one.value as { id?: unknown };
        return typeof id === "string"
          ? [{ list: one.list, id, text: textOfPart(text, map, inspection, one) }]
          : [];
      });
      const written = writeCopied({ format, list: part.list, text: copied, needs });
      void copyText(written).then((isCopied) =>
        setNotice(isCopied ? t.build.copiedPart(titleOf(part)) : t.notCopied),
      );
    },
  };
}

/** The text of a part. That of an action begins with the text in front of it. */
function textOfPart(text: string, map: ByteMap, inspection: Inspection | undefined, part: Part): string {
  const end = map.toUnit(part.start + part.length);
  if (part.list !== "elements") return text.slice(map.toUnit(part.start), end);
  const before = (part.value as { text?: Json }).text;
  const own = text.slice(map.toUnit(part.start), end);
  return inspection && typeof before === "string" && before !== "" ? `${before}\n\n${own}` : own;
}

type KeyInput = {
  part: Part | undefined;
  isReadOnly: boolean;
  actions: PartActions;
  paste: (text: string) => void;
};

export function usePartKeys({ part, isReadOnly, actions, paste }: KeyInput): void {
  useKeys((event) => {
    if (isReadOnly || isTyping(event) || !part) return;
    const isCommand = event.ctrlKey || event.metaKey;
    const done = () => event.preventDefault();
    if (event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
      done();
      actions.move(part, event.key === "ArrowUp" ? -1 : 1);
    } else if (event.key === "Delete") {
      done();
      actions.remove(part);
    } else if (isCommand && event.key === "d") {
      done();
      actions.duplicate(part);
    } else if (isCommand && event.key === "c" && window.getSelection()?.isCollapsed !== false) {
      done();
      actions.copy(part);
    }
  });
  useEffect(() => {
    const listen = (event: ClipboardEvent) => {
      const target = event.composedPath()[0];
      const isField =
        target instanceof HTMLElement &&
        (target.isContentEditable || /^(INPUT|TEXTAREA)$/.test(target.tagName));
      const text = event.clipboardData?.getData("text/plain");
      if (isReadOnly || isField || !text) return;
      event.preventDefault();
      paste(text);
    };
    window.addEventListener("paste", listen);
    return () => window.removeEventListener("paste", listen);
  });
}

type PasteInput = {
  inspection: Inspection | undefined;
  source: Source;
  format: string;
  part: Part | undefined;
  change: (edits: Edit[]) => Promise<Outcome>;
  setNotice: (text: string) => void;
};

/** Pastes a copied part after the selected one, with what it refers to, or reports why that is not possible. */
export async function pastePart(text: string, input: PasteInput): Promise<void> {
  const { inspection, source, format, part, change, setNotice } = input;
  const copied = readCopied(text);
  if (!copied) {
    setNotice(t.build.pasteNothing);
  } else if (copied.format !== format) {
    setNotice(t.build.pasteOther(t.format(copied.format), t.format(format)));
  } else {
    const at = part && part.list === copied.list ? positionOf(inspection, part) + 1 : END;
    const { edits, left } = inspection
      ? addNeeded(copied.needs, inspection, source)
      : { edits: [], left: [] };
    await change([...edits, { do: "paste", list: listOf(part, copied.list), at, text: copied.text }]);
    if (left.length > 0) setNotice(t.build.pastedWithout(left.join(", ")));
  }
}
