// The field of an input that is a file. Its entry is the JSON of the input, or empty.
import { useRef, useState } from "react";
import { type Json, parseJson } from "../api/json";
import { t } from "../strings";
import { Button, IconButton } from "./button";
import { formatBytes } from "./format";
import { Icon } from "./icon";
import { Problem } from "./problem";
import { type FileContent, MAX_FILE_BYTES, readFile } from "./read-file";

type FileFieldProps = {
  label: string;
  value: string;
  onChange: (value: string) => void;
  isFocused: boolean;
};

export function FileField({ label, value, onChange, isFocused }: FileFieldProps) {
  const picker = useRef<HTMLInputElement>(null);
  // Other fields may change while a file is read.
  const latest = useRef(onChange);
  latest.current = onChange;
  const [problem, setProblem] = useState<string>();
  const action = value === "" ? t.file.choose : t.file.replace;
  const choose = async (file: File | undefined) => {
    if (!file) return;
    const isTooLarge = file.size > MAX_FILE_BYTES;
    setProblem(isTooLarge ? t.file.tooLarge(file.name) : undefined);
    if (isTooLarge) return;
    try {
      const content = await readFile(file);
      latest.current(JSON.stringify({ $file: content }));
    } catch {
      setProblem(t.file.unreadable(file.name));
    }
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the button does the same; dropping a file is a convenience.
    <span
      className="file-field"
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        event.stopPropagation();
        void choose(event.dataTransfer.files[0]);
      }}
    >
      {value !== "" && (
        <span className="badge">
          <Icon name="attach" />
          {describeEntry(value)}
          <IconButton icon="close" label={t.file.remove(label)} onClick={() => onChange("")} />
        </span>
      )}
      <Button
        icon="attach"
        autoFocus={isFocused}
        aria-label={`${action}: ${label}`}
        onClick={() => picker.current?.click()}
      >
        {action}
      </Button>
      <input
        ref={picker}
        type="file"
        hidden
        aria-label={label}
        onChange={(event) => {
          void choose(event.target.files?.[0]);
          event.target.value = "";
        }}
      />
      {problem && <Problem>{problem}</Problem>}
    </span>
  );
}

/** What an entry contains: the name and the size of a file. An input that is known by value has no name. */
export function describeEntry(entry: string): string {
  const file = readContent(entry);
  if (!file) return t.file.unnamed;
  const padding = /=*$/.exec(file.base64)?.[0].length ?? 0;
  return `${file.name} · ${formatBytes((file.base64.length * 3) / 4 - padding)}`;
}

function readContent(entry: string): FileContent | undefined {
  try {
    const value = parseJson(entry) as { $file?: Json } | null;
    return (value?.$file ?? undefined) as FileContent | undefined;
  } catch {
    return undefined;
  }
}
