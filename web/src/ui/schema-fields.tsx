// The fields of a form for a value.
import { useEffect, useRef } from "react";
import { t } from "../strings";
import { FileField } from "./file-field";
import { Problem } from "./problem";
import type { Entries, Field, InvalidEntry } from "./schema-form";

type FieldsProps = {
  fields: readonly Field[];
  entries: Entries;
  onChange: (entries: Entries) => void;
  isFirstFocused?: boolean;
  /** The entry that does not fit, which is marked. */
  invalid?: InvalidEntry | undefined;
};

export function SchemaFields({ fields, entries, onChange, isFirstFocused = false, invalid }: FieldsProps) {
  return fields.map((field, at) => {
    const wrong = invalid?.field.name === field.name ? invalid : undefined;
    // A label would press the first of several buttons.
    const Row = field.kind === "file" ? "div" : "label";
    return (
      <Row key={field.name} className="field">
        <span>
          {field.label}
          {field.isRequired && fields.length > 1 && <small className="faint"> ({t.answer.required})</small>}
        </span>
        <FieldInput
          field={field}
          value={entries[field.name] ?? ""}
          onChange={(value) => onChange({ ...entries, [field.name]: value })}
          isFocused={isFirstFocused && at === 0}
          isWrong={wrong !== undefined}
        />
        {field.help && <small>{field.help}</small>}
        {wrong && <WrongEntry message={wrong.message} />}
      </Row>
    );
  });
}

/** Why the entry above does not fit. It may be outside of what is visible. */
function WrongEntry({ message }: { message: string }) {
  const element = useRef<HTMLDivElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another message is shown, too.
  useEffect(() => element.current?.scrollIntoView({ block: "center" }), [message]);
  return (
    <div ref={element}>
      <Problem>{message}</Problem>
    </div>
  );
}

type FieldInputProps = {
  field: Field;
  value: string;
  onChange: (value: string) => void;
  isFocused: boolean;
  isWrong: boolean;
};

function FieldInput({ field, value, onChange, isFocused, isWrong }: FieldInputProps) {
  const common = {
    className: "input",
    value,
    required: field.isRequired && !["long", "any", "list"].includes(field.kind),
    autoFocus: isFocused,
    "aria-invalid": isWrong,
    onChange: (event: { target: { value: string } }) => onChange(event.target.value),
  };
  switch (field.kind) {
    case "choice":
    case "boolean":
      return (
        <select {...common}>
          <option value="" />
          {field.options.map((option) => (
            <option key={JSON.stringify(option)} value={JSON.stringify(option)}>
              {typeof option === "string" ? option : JSON.stringify(option)}
            </option>
          ))}
        </select>
      );
    case "number":
      // The type "number" hides what is no number, as if nothing were entered.
      return <input {...common} type="text" inputMode="decimal" autoComplete="off" />;
    case "text":
      return <input {...common} type="text" />;
    case "long":
    case "any":
    case "list":
      return <textarea {...common} rows={field.kind === "list" ? 3 : 2} />;
    case "file":
      return <FileField label={field.label} value={value} onChange={onChange} isFocused={isFocused} />;
    case "json":
      return <textarea {...common} rows={4} spellCheck={false} className="input mono" />;
  }
}
