// A text with references: variables are inserted from a list, and the preview shows it with the values of the newest run.
import { type ReactNode, type RefObject, useId, useRef, useState } from "react";
import type { Json } from "../api/json";
import { t } from "../strings";
import { Button } from "../ui/button";
import { type FormSchema, useForm } from "./context";
import { insertReference, isData, readData, writeData } from "./data-text";
import type { Variable } from "./definition";
import { refuse } from "./edit-queue";
import { useEntry, useStore } from "./entry";
import { type FieldProps, Frame } from "./frame";
import { isReference, previewOf, referenceTo } from "./references";

type TemplateProps = FieldProps & {
  /** Whether the list of variables is shown from the beginning. */
  isListOpen?: boolean;
  /** What else can be done with the field. */
  children?: ReactNode;
};

export function TemplateField(props: TemplateProps) {
  const { schema, value } = props;
  const { isReadOnly, last, variables } = useForm();
  const id = useId();
  const input = useRef<HTMLTextAreaElement>(null);
  const [isOpen, setIsOpen] = useState(props.isListOpen ?? false);
  const { entry, shown, insert } = useTemplate(props, input);
  const style = schema["x-references"] ?? "{{}}";
  const choose = (reference: string) => {
    insert(reference);
    setIsOpen(false);
  };
  const isLong = (schema["x-long"] && !isData(schema, value)) || shown.includes("\n");
  return (
    <Frame id={id} props={props} error={entry.refusal}>
      <textarea
        id={id}
        ref={input}
        className="input template-input"
        rows={isLong ? Math.min(14, Math.max(4, entry.text.split("\n").length + 1)) : 1}
        value={entry.text}
        readOnly={isReadOnly}
        aria-describedby={schema.description ? `${id}-help` : undefined}
        onChange={(event) => entry.change(event.target.value)}
        onBlur={entry.flush}
      />
      {!isReadOnly && (
        <div className="template-tools">
          <Button
            look="quiet"
            icon="plus"
            aria-expanded={isOpen}
            aria-label={`${t.build.variable}: ${props.label}`}
            onClick={() => setIsOpen(!isOpen)}
          >
            {t.build.variable}
          </Button>
          {props.children}
        </div>
      )}
      {isOpen && <VariableList variables={variables} last={last} style={style} onChoose={choose} />}
      <Preview text={entry.text} style={style} last={last} />
    </Frame>
  );
}

/** The text of a template while it is edited, and how a reference gets into it. */
function useTemplate(props: FieldProps, input: RefObject<HTMLTextAreaElement | null>) {
  const { schema, value, isRequired, label } = props;
  const style = schema["x-references"] ?? "{{}}";
  const store = useStore(props);
  const holdsData = isData(schema, value);
  const shown = holdsData
    ? writeData(value)
    : value === undefined || value === null
      ? ""
      : typeof value === "string"
        ? value
        : JSON.stringify(value);
  const storeData = (text: string) => {
    const read = readData(text, style);
    return read === undefined ? refuse(t.build.notData(referenceTo("node.field", style))) : store(read);
  };
  const entry = useEntry(
    shown,
    (text) => {
      if (holdsData) return text.trim() === "" ? store(undefined) : storeData(text);
      return store(text === "" && !isRequired ? undefined : toValue(text, value, schema));
    },
    label,
  );
  const isFitting = (text: string) => {
    if (schema.enum) return isReference(text, style);
    return !holdsData || readData(text, style) !== undefined;
  };
  const insert = (reference: string) => {
    const element = input.current;
    const from = element?.selectionStart ?? entry.text.length;
    const to = element?.selectionEnd ?? from;
    entry.change(insertReference({ text: entry.text, from, to, reference }, isFitting));
    element?.focus();
  };
  return { entry, shown, insert };
}

type PreviewProps = { text: string; style: string; last: ReadonlyMap<string, Json> };

/** The text with the values of the newest run, if it has references. */
function Preview({ text, style, last }: PreviewProps) {
  const pieces = previewOf(text, style, last);
  if (!pieces.some((piece) => piece.isReference)) return null;
  return (
    <details className="template-preview">
      <summary>{t.build.preview}</summary>
      <p className="faint">{t.build.previewHelp}</p>
      <p className="preview-text">
        {pieces.map((piece, at) =>
          piece.isReference ? (
            // biome-ignore lint/suspicious/noArrayIndexKey: the pieces are in the order of the text.
            <mark key={at} data-known={piece.isKnown} title={piece.reference}>
              {piece.text}
            </mark>
          ) : (
            // biome-ignore lint/suspicious/noArrayIndexKey: the pieces are in the order of the text.
            <span key={at}>{piece.text}</span>
          ),
        )}
      </p>
    </details>
  );
}

/** A number or a truth value stays what it is if its text is one again. */
function toValue(text: string, before: Json | undefined, schema: FormSchema): Json {
  const isData = (typeof before === "number" || typeof before === "boolean") && schema.type !== "string";
  const isTyped = schema.type === "integer" || schema.type === "number" || schema.type === "boolean";
  if (!isData && !isTyped) return text;
  try {
    const parsed = JSON.parse(text) as Json;
    return typeof parsed === "object" ? text : parsed;
  } catch {
    return text;
  }
}

type ListProps = {
  variables: Variable[];
  last: ReadonlyMap<string, Json>;
  style: string;
  onChoose: (reference: string) => void;
};

function VariableList({ variables, last, style, onChoose }: ListProps) {
  if (variables.length === 0) return <p className="soft">{t.build.noVariables}</p>;
  return (
    <ul className="variable-list" aria-label={t.build.variables}>
      {variables.flatMap((variable) => {
        const { name, type_name, origin } = variable;
        const fields = variable.fields.map((field) => ({
          name: `${name}.${field.name}`,
          about: joinFacts([field.type_name, field.description, origin]),
        }));
        const whole = { name, about: joinFacts([type_name, origin]) };
        // A node of a pipeline is referred to by one of its fields.
        const choices = style === "{{}}" && fields.length > 0 ? fields : [whole, ...fields];
        return choices.map((choice) => (
          <li key={choice.name}>
            <button
              type="button"
              className="variable"
              onClick={() => onChoose(referenceTo(choice.name, style))}
            >
              <b className="mono">{choice.name}</b>
              <span className="faint">{choice.about}</span>
              <span className="variable-last cut">{describeLast(last, choice.name)}</span>
            </button>
          </li>
        ));
      })}
    </ul>
  );
}

/** The facts about a variable, in a line. */
function joinFacts(facts: string[]): string {
  return facts.filter((fact) => fact !== "").join(", ");
}

function describeLast(last: ReadonlyMap<string, Json>, name: string): string {
  const [root = "", ...path] = name.split(".");
  let value: Json | undefined = last.get(root);
  for (const step of path) {
    value = typeof value === "object" && value !== null ? (value as Record<string, Json>)[step] : undefined;
  }
  return value === undefined ? t.build.noLast : typeof value === "string" ? value : JSON.stringify(value);
}
