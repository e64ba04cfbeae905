// The fields of a form, by the schema of their values. A value that no field fits is shown as its source.
import { type ReactNode, useEffect, useId, useState } from "react";
import type { Json } from "../api/json";
import { t } from "../strings";
import { Button, IconButton } from "../ui/button";
import { BindableField } from "./bindable-field";
import { BooleanField } from "./boolean-field";
import { CodeField } from "./code-field";
import { belowOf, type FormSchema, labelOf, useForm } from "./context";
import { canBind } from "./data-text";
import { arrangeFields, type NamedField } from "./dependencies";
import { DONE, refuse } from "./edit-queue";
import { useEntry, useStore } from "./entry";
import { fieldKind } from "./field-kind";
import { type FieldProps, Frame } from "./frame";
import { JsonField } from "./json-field";
import { mentionsOneOf } from "./marks";
import { ModelField } from "./model-field";
import { NamesField } from "./names-field";
import type { Path } from "./path";
import { SchemaField } from "./schema/schema-field";
import { TemplateField } from "./template-field";
import { unlessRefused } from "./unless-refused";

/** The field of a value. */
export function ValueField(props: FieldProps) {
  if (!canBind(props.schema)) return <OwnField {...props} />;
  return (
    <BindableField {...props}>
      <OwnField {...props} />
    </BindableField>
  );
}

function OwnField(props: FieldProps) {
  switch (fieldKind(props.schema, props.value)) {
    case "object":
      return <ObjectFields {...props} />;
    case "rows":
      return <RowFields {...props} />;
    case "entries":
      return <EntryFields {...props} />;
    case "boolean":
      return <BooleanField {...props} />;
    case "names":
      return <NamesField {...props} rows={RowFields} />;
    case "choice":
      return <ChoiceField {...props} />;
    case "template":
      return <TemplateField {...props} />;
    case "code":
      return <CodeField {...props} />;
    case "schema":
      return <SchemaField {...props} />;
    case "model":
      return <ModelField {...props} />;
    case "json":
      return <JsonField {...props} />;
    default:
      return <TextField {...props} />;
  }
}

function TextField(props: FieldProps) {
  const { schema, value, path, label } = props;
  const { isReadOnly, edit, names, own } = useForm();
  const id = useId();
  const store = useStore(props);
  const isNumber = schema.type === "number" || schema.type === "integer";
  const shown =
    value === undefined || value === null ? "" : typeof value === "string" ? value : JSON.stringify(value);
  const entry = useEntry(
    shown,
    (text) => {
      if (isNumber) {
        if (text.trim() === "") return store(undefined);
        const number = Number(text);
        return Number.isFinite(number) ? store(number) : refuse(t.build.notNumber);
      }
      // A declared name is changed at all of its places.
      if (schema["x-widget"] === "name" && shown !== "" && text !== "")
        return edit([{ do: "rename", path, name: text }]);
      if (text === "" && schema.nullable) return store(null);
      return store(text === "" && !props.isRequired ? undefined : text);
    },
    label,
  );
  const options = listOptions(schema, names, own);
  const common = {
    id,
    value: entry.text,
    readOnly: isReadOnly,
    placeholder: schema.default === undefined ? "" : t.build.byDefault(String(schema.default)),
    "aria-describedby": schema.description ? `${id}-help` : undefined,
    onBlur: entry.flush,
  };
  const isLong = schema["x-long"] || shown.includes("\n");
  return (
    <Frame id={id} props={{ ...props, label }} error={entry.refusal}>
      {isLong ? (
        <textarea
          {...common}
          className="input"
          rows={Math.min(12, Math.max(3, shown.split("\n").length))}
          onChange={(event) => entry.change(event.target.value)}
        />
      ) : (
        <input
          {...common}
          className="input"
          type="text"
          inputMode={isNumber ? "decimal" : undefined}
          list={options.length > 0 ? `${id}-options` : undefined}
          autoComplete="off"
          onChange={(event) => entry.change(event.target.value)}
        />
      )}
      {options.length > 0 && (
        <datalist id={`${id}-options`}>
          {options.map((option) => (
            <option key={option.name} value={option.name}>
              {option.detail}
            </option>
          ))}
        </datalist>
      )}
    </Frame>
  );
}

type Option = { name: string; detail?: string | undefined };

/** What can be named in a field. */
function listOptions(
  schema: FormSchema,
  names: ReturnType<typeof useForm>["names"],
  own: Record<string, string[]>,
): Option[] {
  const examples = (schema.examples ?? []).filter((one) => typeof one === "string");
  if (schema["x-widget"] !== "reference") return examples.map((name) => ({ name }));
  const kind = schema["x-names"] ?? "";
  const mine = (own[kind] ?? []).map((name) => ({ name }));
  const others: Record<string, Option[] | undefined> = {
    function: names?.functions,
    block: names?.blocks,
    agent: names?.agents,
    tool: [...(names?.workflows ?? []), ...(names?.functions ?? [])],
  };
  const all = [...mine, ...(others[kind] ?? [])];
  return all.filter((option, at) => all.findIndex((one) => one.name === option.name) === at);
}

function ChoiceField(props: FieldProps) {
  const { schema, value, isRequired } = props;
  const { isReadOnly } = useForm();
  const id = useId();
  const store = useStore(props);
  const options = (schema.enum ?? []).filter(
    (option) => typeof option === "string" || typeof option === "number",
  );
  const stored = value === undefined || value === null ? "" : String(value);
  const [shown, setShown] = useState(stored);
  useEffect(() => setShown(stored), [stored]);
  const isOther = shown !== "" && !options.some((option) => String(option) === shown);
  const nameValue = (option: Json) => t.build.values[String(option)] ?? String(option);
  const byDefault =
    schema.default === undefined ? t.build.unset : t.build.byDefault(nameValue(schema.default));
  return (
    <Frame id={id} props={props}>
      <select
        id={id}
        className="input"
        value={shown}
        disabled={isReadOnly}
        onChange={(event) => {
          setShown(event.target.value);
          const chosen = options.find((option) => String(option) === event.target.value);
          const next = chosen ?? (event.target.value === "" ? undefined : event.target.value);
          void unlessRefused(store(next), () => setShown(stored));
        }}
      >
        {(!isRequired || shown === "") && <option value="">{byDefault}</option>}
        {isOther && <option value={shown}>{shown}</option>}
        {options.map((option) => (
          <option key={String(option)} value={String(option)}>
            {nameValue(option)}
          </option>
        ))}
      </select>
    </Frame>
  );
}

/** The fields of an object. What the schema does not know is shown as source. */
export function ObjectFields({ schema, value, path, label }: FieldProps) {
  return (
    <fieldset className="form-group">
      <legend>{label}</legend>
      <Properties schema={schema} value={value} path={path} />
    </fieldset>
  );
}

type PropertiesProps = { schema: FormSchema; value: Json | undefined; path: Path };

export function Properties({ schema, value, path }: PropertiesProps) {
  const held = typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
  const entries = held as Record<string, Json>;
  const known = Object.entries(schema.properties ?? {}).filter(([, one]) => one.const === undefined);
  const constant = Object.entries(schema.properties ?? {}).filter(([, one]) => one.const !== undefined);
  const required = schema.required ?? [];
  const few = known.length <= FEW_FIELDS;
  // A field without an explanation is one that the original system has for itself.
  const isPlain = ([name, one]: NamedField) =>
    required.includes(name) || (few && (!!one.description || isSmall));
  const isSmall = known.length <= 3;
  const hadValue = useFirstValues(known, entries);
  const { first, more } = arrangeFields(known, entries, { isPlain, hadValue });
  const names = new Set([...known, ...constant].map(([name]) => name));
  const other = Object.entries(entries).filter(([name]) => !names.has(name));
  const field = ([name, one]: NamedField) => {
    const isFlat = name === "config" && constant.length > 0;
    if (isFlat) return <Properties key={name} schema={one} value={entries[name]} path={[...path, name]} />;
    return (
      <ValueField
        key={name}
        schema={one}
        value={entries[name]}
        path={[...path, name]}
        label={labelOf(name)}
        isRequired={required.includes(name)}
      />
    );
  };
  return (
    <>
      {first.map(field)}
      {more.length > 0 && (
        <MoreFields title={t.build.more} names={more.map(([name]) => name)}>
          {more.map(field)}
        </MoreFields>
      )}
      {other.length > 0 && (
        <MoreFields title={t.build.other} names={other.map(([name]) => name)}>
          <p className="soft">{t.build.otherHelp}</p>
          {other.map(([name, one]) => (
            <JsonField key={name} schema={{}} value={one} path={[...path, name]} label={name} />
          ))}
        </MoreFields>
      )}
    </>
  );
}

/** Which fields had a value when the form first had them: their places do not change while something is entered. */
function useFirstValues(known: NamedField[], entries: Record<string, Json>): (name: string) => boolean {
  const [found] = useState(() => new Map<string, boolean>());
  for (const [name] of known) if (!found.has(name)) found.set(name, entries[name] !== undefined);
  return (name) => found.get(name) === true;
}

type MoreFieldsProps = { title: string; names: string[]; children: ReactNode };

/** Fields that are shown on request, or when a problem names one of them. Only the viewer folds them again. */
function MoreFields({ title, names, children }: MoreFieldsProps) {
  const { problems } = useForm();
  const hasProblem = problems.some((text) => mentionsOneOf(text, names));
  const [isOpen, setIsOpen] = useState(hasProblem);
  const [hadProblem, setHadProblem] = useState(hasProblem);
  if (hasProblem !== hadProblem) {
    setHadProblem(hasProblem);
    if (hasProblem) setIsOpen(true);
  }
  return (
    <details className="form-more" open={isOpen} onToggle={(event) => setIsOpen(event.currentTarget.open)}>
      <summary>{title}</summary>
      <div className="form-fields">{children}</div>
    </details>
  );
}

/** An object with at most this many fields shows all that are explained. */
const FEW_FIELDS = 6;

/** The items of a list, one below the other. */
function RowFields({ schema, value, path, label }: FieldProps) {
  const { isReadOnly, edit } = useForm();
  const rows = Array.isArray(value) ? value : [];
  const item = belowOf(schema, schema.items);
  const hasFields = item.type === "object" || item.properties !== undefined;
  const add = () => {
    const names = Object.keys(item.properties ?? {});
    const needed = names.filter(
      (name) => (item.required ?? names.slice(0, 2)).includes(name) || name === "value",
    );
    const empty: Json = hasFields
      ? Object.fromEntries(needed.map((name) => [name, ""]))
      : (item.enum?.[0] ?? "");
    void edit([{ do: "set", path: [...path, rows.length], value: empty }]);
  };
  return (
    <fieldset className="form-group">
      <legend>{label}</legend>
      {schema.description && <small className="faint">{schema.description}</small>}
      {rows.map((row, at) => {
        const own = [...path, at];
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: a row is known by its position.
          <div key={at} className="form-row">
            <div className="form-fields">
              {hasFields && typeof row === "object" && row !== null ? (
                // The fields of another row may be at other places.
                <Properties key={rows.length} schema={item} value={row} path={own} />
              ) : (
                <ValueField schema={item} value={row} path={own} label={`${at + 1}`} isRequired />
              )}
            </div>
            {!isReadOnly && (
              <IconButton
                icon="close"
                label={t.build.removeRow(at + 1)}
                onClick={() => void edit([{ do: "remove", path: own }])}
              />
            )}
          </div>
        );
      })}
      {!isReadOnly && (
        <Button icon="plus" onClick={add}>
          {hasFields ? t.build.addRow : t.build.addItem}
        </Button>
      )}
    </fieldset>
  );
}

/** The entries of an object whose keys are free. */
function EntryFields({ schema, value, path, label }: FieldProps) {
  const { isReadOnly, edit } = useForm();
  const entries = Object.entries((value ?? {}) as Record<string, Json>);
  const below = belowOf(schema, schema.additionalProperties);
  const add = () => {
    const taken = new Set(entries.map(([name]) => name));
    // Inputs and data of a Markdown workflow share their names.
    const stem = path.at(-1) === "data" ? "value" : "name";
    let number = 1;
    while (taken.has(`${stem}${number}`)) number += 1;
    const empty: Json = below.properties?.type?.enum ? { type: below.properties.type.enum[0] ?? "" } : "";
    void edit([{ do: "set", path: [...path, `${stem}${number}`], value: empty }]);
  };
  return (
    <fieldset className="form-group">
      <legend>{label}</legend>
      {schema.description && <small className="faint">{schema.description}</small>}
      {entries.map(([name, one], at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the key of an entry changes while it is typed.
        <div key={at} className="form-row">
          <div className="form-fields">
            <KeyField name={name} path={[...path, name]} />
            {below.properties && typeof one === "object" && one !== null ? (
              // The fields of another entry may be at other places.
              <Properties key={entries.length} schema={below} value={one} path={[...path, name]} />
            ) : (
              <ValueField
                schema={below}
                value={one}
                path={[...path, name]}
                label={t.build.value}
                isRequired
              />
            )}
          </div>
          {!isReadOnly && (
            <IconButton
              icon="close"
              label={t.build.removeRow(at + 1)}
              onClick={() => void edit([{ do: "remove", path: [...path, name] }])}
            />
          )}
        </div>
      ))}
      {!isReadOnly && (
        <Button icon="plus" onClick={add}>
          {t.build.addRow}
        </Button>
      )}
    </fieldset>
  );
}

function KeyField({ name, path }: { name: string; path: Path }) {
  const { isReadOnly, edit } = useForm();
  const id = useId();
  const entry = useEntry(name, (text) =>
    text === "" || text === name ? DONE : edit([{ do: "rename_key", path, name: text }]),
  );
  return (
    <div className="field">
      <label htmlFor={id}>
        <b>{t.build.key}</b>
      </label>
      <input
        id={id}
        className="input mono"
        value={entry.text}
        readOnly={isReadOnly}
        onChange={(event) => entry.change(event.target.value)}
        onBlur={entry.flush}
      />
      {entry.refusal && (
        <small className="field-error" role="alert">
          {entry.refusal}
        </small>
      )}
    </div>
  );
}
