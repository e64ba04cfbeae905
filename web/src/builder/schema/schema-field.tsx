// A JSON Schema: a form for the usual shapes, and its text for everything else.
import { useEffect, useRef, useState } from "react";
import type { Json } from "../../api/json";
import { t } from "../../strings";
import { CodeField } from "../code-field";
import { useForm } from "../context";
import { DONE, type Outcome } from "../edit-queue";
import type { FieldProps } from "../frame";
import { JsonField } from "../json-field";
import { listChanges } from "./changes";
import { canShow, isNode, type SchemaNode } from "./schema";
import { NodeFields } from "./schema-rows";
import "./schema.css";

type Look = "form" | "text";

export function SchemaField(props: FieldProps) {
  const { schema, value, label } = props;
  const { isReadOnly } = useForm();
  const isShowable = canShow(value);
  const [chosen, setChosen] = useState<Look>("form");
  const look = isShowable ? chosen : "text";
  const isCode = schema["x-language"] === "javascript";
  const { draft, change } = useDraft(props);
  const names: Record<Look, string> = { form: t.schema.form, text: isCode ? t.schema.code : t.schema.json };
  const looks = (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is a group of fields, and these are buttons.
    <span className="schema-looks" role="group" aria-label={t.schema.look(label)}>
      {(["form", "text"] as const).map((one) => (
        <button
          key={one}
          type="button"
          className="value-look"
          aria-pressed={one === look}
          disabled={one === "form" && !isShowable}
          title={one === "form" && !isShowable ? t.schema.notShowable : undefined}
          onClick={() => setChosen(one)}
        >
          {names[one]}
        </button>
      ))}
    </span>
  );
  return (
    <div className="schema-field">
      {look === "form" ? (
        <fieldset className="schema-form" aria-label={label}>
          <div className="schema-head">
            <b>{label}</b>
            {looks}
          </div>
          {schema.description && <small className="faint">{schema.description}</small>}
          {isReadOnly && draft === undefined ? (
            <p className="soft">{t.schema.none}</p>
          ) : (
            <NodeFields node={draft ?? {}} onChange={change} name={label} isRoot />
          )}
        </fieldset>
      ) : (
        <>
          <div className="schema-head schema-head-over">{looks}</div>
          {isCode ? <CodeField {...props} /> : <JsonField {...props} />}
        </>
      )}
    </div>
  );
}

/**
 * The schema with the changes that are on their way to the definition, so that a change that follows immediately is
 * based on them.
 */
function useDraft({ schema, value, path }: FieldProps) {
  const { edit } = useForm();
  const [draft, setDraft] = useState<SchemaNode | undefined>(() => (isNode(value) ? value : undefined));
  const onTheWay = useRef(0);
  const latest = useRef(value);
  latest.current = value;
  const written = JSON.stringify(value);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the content of the value counts.
  useEffect(() => {
    if (onTheWay.current === 0) setDraft(isNode(value) ? value : undefined);
  }, [written]);
  const change = async (next: SchemaNode): Promise<Outcome> => {
    // An attribute of Markdown is written as a whole.
    const isWhole = schema["x-language"] === "javascript" || !isNode(value);
    const edits = isWhole
      ? [{ do: "set" as const, path, value: next as Json }]
      : listChanges(draft, next, path);
    if (edits.length === 0) return DONE;
    setDraft(next);
    onTheWay.current += 1;
    const outcome = await edit(edits);
    onTheWay.current -= 1;
    if (outcome.state === "refused") setDraft(isNode(latest.current) ? latest.current : undefined);
    return outcome;
  };
  return { draft, change };
}
