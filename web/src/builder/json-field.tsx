// A value as its source.
import { useId } from "react";
import { formatJson, parseJson } from "../api/json";
import { t } from "../strings";
import { useForm } from "./context";
import { refuse } from "./edit-queue";
import { useEntry, useStore } from "./entry";
import { type FieldProps, Frame } from "./frame";

export function JsonField(props: FieldProps) {
  const { value } = props;
  const { isReadOnly } = useForm();
  const id = useId();
  const store = useStore(props);
  const shown = formatJson(value);
  const entry = useEntry(
    shown,
    (text) => {
      if (text.trim() === "") return store(undefined);
      try {
        return store(parseJson(text));
      } catch {
        return refuse(t.build.notJson);
      }
    },
    props.label,
  );
  return (
    <Frame id={id} props={props} error={entry.refusal}>
      <textarea
        id={id}
        className="input mono"
        rows={Math.min(16, Math.max(3, entry.text.split("\n").length))}
        spellCheck={false}
        value={entry.text}
        readOnly={isReadOnly}
        onChange={(event) => entry.change(event.target.value)}
        onBlur={entry.flush}
      />
    </Frame>
  );
}
