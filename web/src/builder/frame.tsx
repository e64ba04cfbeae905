// The frame of every field of a form: a label, its explanation, and the error in the entry.
import type { ReactNode } from "react";
import type { Json } from "../api/json";
import { t } from "../strings";
import { Icon } from "../ui/icon";
import type { FormSchema } from "./context";
import type { Path } from "./path";

export type FieldProps = {
  schema: FormSchema;
  value: Json | undefined;
  path: Path;
  /** The name of the value for people. */
  label: string;
  isRequired?: boolean;
};

type FrameProps = {
  id: string;
  props: FieldProps;
  error?: string | undefined;
  /** What keeps the entry from working as things are. */
  warning?: string | undefined;
  children: ReactNode;
};

/** A label with a field, its explanation, and the error in the entry. */
export function Frame({ id, props, error, warning, children }: FrameProps) {
  const { schema, label, isRequired } = props;
  return (
    <div className="field">
      <label htmlFor={id}>
        <b>{label}</b>
        {isRequired && <small className="faint"> ({t.build.required})</small>}
      </label>
      {children}
      {schema.description && <small id={`${id}-help`}>{schema.description}</small>}
      {warning && (
        <small className="field-warning" role="status">
          <Icon name="warn" />
          {warning}
        </small>
      )}
      {error && (
        <small className="field-error" role="alert">
          {error}
        </small>
      )}
    </div>
  );
}
