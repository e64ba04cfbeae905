// Writes a message: text, images and text files.
import { type KeyboardEvent, useEffect, useRef, useState } from "react";
import { createAttemptKey } from "../../api/attempt";
import { ApiError } from "../../api/client";
import { t } from "../../strings";
import { Button, IconButton } from "../../ui/button";
import { formatBytes } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { useKept } from "../../ui/kept";
import { Problem } from "../../ui/problem";
import { MAX_FILE_BYTES, readFile } from "../../ui/read-file";
import type { TurnFacts } from "./conversation";
import type { AttachedFile, Said } from "./partners";

/** A text of this size fills the context of many models. */
const LONG_TEXT_BYTES = 200_000;

/** Texts that browsers give another type, or none. */
const TEXT_NAMES =
  /\.(txt|md|mdx|csv|tsv|json|jsonl|ya?ml|toml|xml|html?|css|[cm]?[jt]sx?|py|rs|go|java|c|h|cpp|sh|sql|log|ini)$/i;

function isPicture({ type }: File): boolean {
  return /^image\/(png|jpe?g|gif|webp)$/.test(type);
}

/** Why a file cannot be sent; undefined if it can. */
function refuseFile(file: File): string | undefined {
  const isText = file.type.startsWith("text/") || TEXT_NAMES.test(file.name) || file.type === "";
  if (!isPicture(file) && !isText) return t.chat.wrongType(file.name);
  return file.size > MAX_FILE_BYTES ? t.file.tooLarge(file.name) : undefined;
}

type ComposerProps = {
  /** The conversation, or the message in it that is edited: text that is written for it stays. */
  place: string;
  /** The turn that the message replaces. */
  edited: TurnFacts | undefined;
  /** What the conversation waits for. */
  waitsFor: "answer" | "approval" | undefined;
  isBusy: boolean;
  /** Sends a message; rejects if that failed. */
  onSend: (said: Said) => Promise<unknown>;
  onStop: (() => void) | undefined;
  onCancelEdit: () => void;
};

type Draft = Pick<Said, "text" | "files" | "attempt">;

/** The message that is written. A message that is sent too early goes out when the answer is complete. */
function useDraftMessage({ place, edited, isBusy, onSend }: ComposerProps) {
  const [draft, setDraft, forget] = useKept<Draft>(place, () => ({ text: edited?.text ?? "", files: [] }));
  const { text, files } = draft;
  const [isQueued, setIsQueued] = useState(false);
  const hasContent = text.trim() !== "" || files.length > 0;
  const send = () => {
    setIsQueued(isBusy && hasContent);
    if (isBusy || !hasContent) return;
    const sent = { text, files, attempt: draft.attempt ?? createAttemptKey() };
    setDraft({ text: "", files: [] });
    // Unsent text is restored, before text that was written meanwhile.
    onSend({ ...sent, ...(edited && { keep: edited.earlier }) }).catch((error: unknown) => {
      // What the server refused is another attempt; what may have arrived must not arrive twice.
      const unsent = error instanceof ApiError ? { text, files } : sent;
      setDraft((now) => joinDrafts(unsent, now));
    });
  };
  const latest = useRef(send);
  latest.current = send;
  useEffect(() => {
    if (isQueued && !isBusy) latest.current();
  }, [isQueued, isBusy]);
  return { text, files, hasContent, isQueued, send, forget, setDraft };
}

/** Files that are added to the message: why one cannot be sent, and warnings about one. */
function useFiles(add: (files: AttachedFile[]) => void) {
  const [problem, setProblem] = useState<string>();
  const [warning, setWarning] = useState<string>();
  const attach = async (list: FileList | null) => {
    const chosen = [...(list ?? [])];
    const refused = chosen.map(refuseFile).find((why) => why !== undefined);
    setProblem(refused);
    if (refused) return;
    const long = chosen.find((file) => !isPicture(file) && file.size > LONG_TEXT_BYTES);
    setWarning(long && t.chat.longText(long.name, formatBytes(long.size)));
    add(await Promise.all(chosen.map(readFile)));
  };
  return { problem, warning, attach };
}

export function Composer(props: ComposerProps) {
  const { edited, waitsFor, onStop, onCancelEdit } = props;
  const draft = useDraftMessage(props);
  const { text, files, setDraft } = draft;
  const { problem, warning, attach } = useFiles((read) =>
    setDraft((before) => ({ text: before.text, files: [...before.files, ...read] })),
  );
  const writer = useRef<HTMLTextAreaElement>(null);
  useEffect(() => writer.current?.focus(), []);
  const cancel = () => {
    draft.forget();
    onCancelEdit();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape" && edited) cancel();
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    draft.send();
  };
  return (
    <form
      className="chat-composer"
      onSubmit={(event) => {
        event.preventDefault();
        draft.send();
      }}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        event.stopPropagation();
        void attach(event.dataTransfer.files);
      }}
    >
      {edited && <EditNote onCancel={cancel} />}
      {draft.isQueued && <p className="faint">{t.chat.queued}</p>}
      {problem && <Problem>{problem}</Problem>}
      {warning && files.length > 0 && <Problem severity="warning">{warning}</Problem>}
      <AttachedFiles files={files} onChange={(left) => setDraft({ text, files: left })} />
      <div className="chat-write">
        <FilePicker onPick={(list) => void attach(list)} />
        <textarea
          className="input"
          rows={2}
          aria-label={t.chat.message}
          placeholder={waitsFor === undefined ? t.chat.placeholder : t.chat.placeholders[waitsFor]}
          value={text}
          onChange={(event) => setDraft({ text: event.target.value, files })}
          onKeyDown={onKeyDown}
          ref={writer}
        />
        <SendButton canSend={draft.hasContent && !draft.isQueued} onStop={onStop} />
      </div>
    </form>
  );
}

/** Shows that an earlier message is being edited. */
function EditNote({ onCancel }: { onCancel: () => void }) {
  return (
    <p className="chat-editing">
      <Icon name="edit" />
      {t.chat.editing}
      <Button look="quiet" onClick={onCancel}>
        {t.cancel}
      </Button>
    </p>
  );
}

type AttachedFilesProps = { files: AttachedFile[]; onChange: (files: AttachedFile[]) => void };

function AttachedFiles({ files, onChange }: AttachedFilesProps) {
  if (files.length === 0) return null;
  return (
    <ul className="chat-files">
      {files.map((file, at) => (
        <li key={`${file.name} ${file.base64.length}`} className="badge">
          <Icon name="attach" />
          {file.name}
          <IconButton
            icon="close"
            label={t.chat.remove(file.name)}
            onClick={() => onChange(files.filter((_, other) => other !== at))}
          />
        </li>
      ))}
    </ul>
  );
}

function FilePicker({ onPick }: { onPick: (list: FileList | null) => void }) {
  const picker = useRef<HTMLInputElement>(null);
  return (
    <>
      <IconButton icon="attach" label={t.chat.attach} onClick={() => picker.current?.click()} />
      <input
        ref={picker}
        type="file"
        multiple
        hidden
        aria-label={t.chat.attach}
        onChange={(event) => {
          onPick(event.target.files);
          event.target.value = "";
        }}
      />
    </>
  );
}

/** Sends the message, or stops the answer that arrives. */
function SendButton({ canSend, onStop }: { canSend: boolean; onStop: (() => void) | undefined }) {
  if (onStop) {
    return (
      <Button look="danger" icon="stop" onClick={onStop}>
        {t.chat.stop}
      </Button>
    );
  }
  return (
    <button type="submit" className="button" data-look="main" disabled={!canSend}>
      <Icon name="send" />
      {t.chat.send}
    </button>
  );
}

function joinDrafts(first: Draft, next: Draft): Draft {
  if (next.text === "" && next.files.length === 0) return first;
  const text = [first.text, next.text].filter(Boolean).join("\n");
  return { text, files: [...first.files, ...next.files] };
}
