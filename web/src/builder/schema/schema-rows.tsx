// The fields of a schema: its type, and the properties of an object or the items of a list, to any depth.
import { type ReactNode, useEffect, useId, useRef, useState } from "react";
import { t } from "../../strings";
import { Button, IconButton } from "../../ui/button";
import { useForm } from "../context";
import { DONE, type Outcome, refuse } from "../edit-queue";
import { useEntry } from "../entry";
import {
  freeName,
  hasChoices,
  isNode,
  isRequired,
  listProperties,
  otherKeywords,
  readChoices,
  type SchemaNode,
  type SchemaType,
  TYPES,
  typeOf,
  withChoices,
  withKeyword,
  withName,
  withoutProperty,
  withProperty,
  withRequired,
  withType,
} from "./schema";

type Change = (next: SchemaNode) => Outcome | Promise<Outcome>;

type NodeProps = {
  node: SchemaNode;
  /** What the schema describes, for people. */
  name: string;
  onChange: Change;
  isRoot?: boolean;
  /** Further text about it at the place of its use. */
  children?: ReactNode;
};

/** Everything of a schema except the name of what it describes. */
export function NodeFields({ node, name, onChange, isRoot = false, children }: NodeProps) {
  const type = typeOf(node);
  // A schema without any keyword is about to become an object, as most are.
  const isObject = type === "object" || (isRoot && Object.keys(node).length === 0);
  return (
    <>
      {isRoot && !isObject && (
        <div className="schema-line">
          <TypeField node={node} name={name} onChange={onChange} />
        </div>
      )}
      {!isRoot && <DescriptionField node={node} name={name} onChange={onChange} />}
      {(children || (hasChoices(type) && !isObject)) && (
        <div className="schema-line">
          {children}
          {hasChoices(type) && !isObject && <ChoicesField node={node} name={name} onChange={onChange} />}
        </div>
      )}
      <OtherKeywords node={node} />
      {isObject && <PropertyList node={node} name={name} onChange={onChange} isRoot={isRoot} />}
      {type === "array" && isNode(node.items) && (
        <Items
          node={node.items}
          name={name}
          onChange={(items) => onChange(withKeyword(node, "items", items))}
        />
      )}
    </>
  );
}

function PropertyList({ node, name, onChange, isRoot }: NodeProps) {
  const { isReadOnly } = useForm();
  const properties = listProperties(node);
  const add = () => {
    const typed = node.type === undefined ? { type: "object", ...node } : node;
    void onChange(withProperty(typed, freeName(node), { type: "string" }));
  };
  return (
    <div className={isRoot ? "schema-list" : "schema-list schema-below"}>
      {properties.map(([own, property], at) => (
        <Property
          // biome-ignore lint/suspicious/noArrayIndexKey: the name of a property changes while it is typed.
          key={at}
          name={own}
          node={property}
          parent={node}
          onParent={onChange}
        />
      ))}
      {isReadOnly && properties.length === 0 && <p className="soft">{t.schema.none}</p>}
      {!isReadOnly && (
        <Button
          look="quiet"
          icon="plus"
          aria-label={isRoot ? t.schema.addTo(name) : t.schema.addInside(name)}
          onClick={add}
        >
          {isRoot ? t.schema.add : t.schema.addInside(name)}
        </Button>
      )}
    </div>
  );
}

type PropertyProps = { name: string; node: SchemaNode; parent: SchemaNode; onParent: Change };

function Property({ name, node, parent, onParent }: PropertyProps) {
  const { isReadOnly } = useForm();
  const onChange: Change = (next) => onParent(withProperty(parent, name, next));
  const isNeeded = isRequired(parent, name);
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset for each row would be announced at each of its fields.
    <div className="schema-row" role="group" aria-label={name}>
      <div className="schema-line">
        <NameField name={name} parent={parent} onParent={onParent} />
        <TypeField node={node} name={name} onChange={onChange} />
        {!isReadOnly && (
          <IconButton
            icon="close"
            label={t.schema.remove(name)}
            onClick={() => void onParent(withoutProperty(parent, name))}
          />
        )}
      </div>
      <NodeFields node={node} name={name} onChange={onChange}>
        <label className="schema-required">
          <input
            type="checkbox"
            checked={isNeeded}
            disabled={isReadOnly}
            aria-label={t.schema.isRequired(name)}
            onChange={(event) => void onParent(withRequired(parent, name, event.target.checked))}
          />
          <span>{t.schema.required}</span>
        </label>
      </NodeFields>
    </div>
  );
}

function NameField({ name, parent, onParent }: Omit<PropertyProps, "node">) {
  const { isReadOnly } = useForm();
  const id = useId();
  const entry = useEntry(
    name,
    (text) => {
      const next = text.trim();
      if (next === name) return DONE;
      if (next === "") return refuse(t.schema.noName);
      const isTaken = listProperties(parent).some(([one]) => one === next);
      return isTaken ? refuse(t.schema.taken(next)) : onParent(withName(parent, name, next));
    },
    t.build.key,
  );
  return (
    <div className="schema-name">
      <input
        className="input mono"
        aria-label={t.schema.nameOf(name)}
        aria-describedby={entry.refusal ? id : undefined}
        autoComplete="off"
        spellCheck={false}
        value={entry.text}
        readOnly={isReadOnly}
        onChange={(event) => entry.change(event.target.value)}
        onBlur={entry.flush}
      />
      {entry.refusal && (
        <small id={id} className="field-error" role="alert">
          {entry.refusal}
        </small>
      )}
    </div>
  );
}

/** A type of several, or one that the form does not know, is shown as it is. */
function TypeField({ node, name, onChange }: NodeProps) {
  const { isReadOnly } = useForm();
  const type = typeOf(node);
  return (
    <select
      className="input schema-type"
      aria-label={t.schema.typeOf(name)}
      value={type ?? "other"}
      disabled={isReadOnly}
      onChange={(event) => void onChange(withType(node, event.target.value as SchemaType))}
    >
      {type === undefined && <option value="other">{[node.type].flat().join(", ")}</option>}
      <option value="any">{t.schema.types.any}</option>
      {TYPES.map((one) => (
        <option key={one} value={one}>
          {t.schema.types[one]}
        </option>
      ))}
    </select>
  );
}

function DescriptionField({ node, name, onChange }: NodeProps) {
  const { isReadOnly } = useForm();
  const held = node.description;
  const entry = useEntry(typeof held === "string" ? held : "", (text) =>
    onChange(withKeyword(node, "description", text.trim() === "" ? undefined : text)),
  );
  if (isReadOnly && entry.text === "") return null;
  return (
    <input
      className="input"
      aria-label={t.schema.descriptionOf(name)}
      placeholder={t.schema.description}
      autoComplete="off"
      value={entry.text}
      readOnly={isReadOnly}
      onChange={(event) => entry.change(event.target.value)}
      onBlur={entry.flush}
    />
  );
}

/** The values that are permitted, one a line. It is shown when there are some, or when the viewer wants some. */
function ChoicesField({ node, name, onChange }: NodeProps) {
  const { isReadOnly } = useForm();
  const choices = readChoices(node);
  const [isOpen, setIsOpen] = useState(choices !== undefined);
  const isWanted = useRef(false);
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    if (isOpen && isWanted.current) field.current?.focus();
  }, [isOpen]);
  const entry = useEntry((choices ?? []).join("\n"), (text) => onChange(withChoices(node, text.split("\n"))));
  if (node.enum !== undefined && !choices) return null;
  if (!choices && !isOpen) {
    if (isReadOnly) return null;
    return (
      <Button
        look="quiet"
        className="button schema-small"
        aria-label={t.schema.choicesOf(name)}
        onClick={() => {
          isWanted.current = true;
          setIsOpen(true);
        }}
      >
        {t.schema.addChoices}
      </Button>
    );
  }
  return (
    <label className="schema-choices">
      <small className="faint">{t.schema.choices}</small>
      <textarea
        className="input"
        aria-label={t.schema.choicesOf(name)}
        rows={Math.min(8, Math.max(2, entry.text.split("\n").length))}
        ref={field}
        value={entry.text}
        readOnly={isReadOnly}
        onChange={(event) => entry.change(event.target.value)}
        onBlur={entry.flush}
      />
    </label>
  );
}

function OtherKeywords({ node }: { node: SchemaNode }) {
  const others = otherKeywords(node);
  if (others.length === 0) return null;
  return <small className="faint">{t.schema.others(others)}</small>;
}

/** The items of a list. */
function Items({ node, name, onChange }: NodeProps) {
  return (
    <div className="schema-below">
      <div className="schema-line">
        <small className="faint">{t.schema.items}</small>
        <TypeField node={node} name={t.schema.itemsOf(name)} onChange={onChange} />
      </div>
      <NodeFields node={node} name={t.schema.itemsOf(name)} onChange={onChange} />
    </div>
  );
}
