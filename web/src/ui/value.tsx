// Values of runs. Everything is shown as text: a value never becomes markup.

import { useMemo, useState } from "react";
import { ExactNumber, formatJson, type Json, parseJson } from "../api/json";
import { t } from "../strings";
import { showDirections } from "./bidi";
import { CopyButton } from "./button";
import { MoreButton, usePart } from "./long-list";
import { Markdown } from "./markdown";
import { TableHead } from "./table-head";

/** A longer text is cut until the viewer asks for the rest. */
const MAX_SHOWN_CHARACTERS = 20_000;
/** Longer lists and objects show their start. */
const MAX_SHOWN_ITEMS = 200;
/** Up to this depth, and with few items, a value is shown unfolded. */
const OPEN_DEPTH = 2;
/** Deeper values are shown as one line. */
const MAX_DEPTH = 60;

/** A longer text is not read as JSON. */
const MAX_READ_CHARACTERS = 2_000_000;

/** A longer address is shown as text. */
const MAX_PICTURE_CHARACTERS = 20_000_000;

type Look = "fields" | "picture" | "text" | "formatted" | "tree" | "table" | "json";

type ValueProps = {
  value: Json;
  label: string;
  /** Whether an object is first shown as rows of names and values, for people who decide something. */
  asFields?: boolean;
  /** What *Copy* copies, if a part of it is shown elsewhere. */
  copied?: Json;
};

/** A value in the looks that fit it. */
export function ValueView({ value, label, asFields = false, copied = value }: ValueProps) {
  const held = useMemo(() => readStructure(value), [value]);
  const looks: Look[] =
    asFields && isRecord(value) ? ["fields", ...looksOf(value, held)] : looksOf(value, held);
  const [chosen, setChosen] = useState<Look>();
  const look = chosen && looks.includes(chosen) ? chosen : (looks[0] ?? "json");
  const text = toText(value);
  return (
    <section className="value" aria-label={label}>
      <header className="value-head">
        <h3>{label}</h3>
        {looks.length > 1 &&
          looks.map((one) => (
            <button
              key={one}
              type="button"
              className="value-look"
              aria-pressed={one === look}
              onClick={() => setChosen(one)}
            >
              {t.looks[one]}
            </button>
          ))}
        <CopyButton text={() => toText(copied)} />
      </header>
      <div className="value-body">
        {look === "fields" && <Fields value={value as { [key: string]: Json }} />}
        {look === "picture" && <img className="value-picture" src={text.trim()} alt={label} />}
        {look === "text" && <LongText text={text} />}
        {look === "formatted" && <LongMarkdown text={text} />}
        {look === "json" && <LongText text={text} isCode />}
        {look === "tree" && <Tree value={held ?? value} />}
        {look === "table" && <Rows rows={(held ?? value) as { [key: string]: Json }[]} />}
      </div>
    </section>
  );
}

function toText(value: Json): string {
  return typeof value === "string" ? value : formatJson(value);
}

/** The list or object that a text holds as JSON, as answers of models often do. */
function readStructure(value: Json): Json | undefined {
  if (typeof value !== "string" || value.length > MAX_READ_CHARACTERS || !/^\s*[[{]/.test(value))
    return undefined;
  try {
    return parseJson(value);
  } catch {
    return undefined;
  }
}

/** The looks that fit a value, or a text that holds one. */
export function looksOf(value: Json, held = readStructure(value)): Look[] {
  if (typeof value === "string") {
    if (isPicture(value)) return ["picture", "text"];
    return held === undefined ? ["text", "formatted"] : ["text", "formatted", ...looksOf(held).slice(0, -1)];
  }
  if (value === null || typeof value !== "object" || value instanceof ExactNumber) return ["json"];
  return isTable(value) ? ["table", "tree", "json"] : ["tree", "json"];
}

/** Formats of pictures that cannot hold scripts. */
const PICTURE = /^\s*data:image\/(png|jpeg|webp|gif);base64,[A-Za-z0-9+/=\s]+$/;

/** Whether a text is the address of a picture that holds the picture itself. */
export function isPicture(text: string): boolean {
  return text.length < MAX_PICTURE_CHARACTERS && PICTURE.test(text);
}

function isTable(value: Json): boolean {
  if (!Array.isArray(value) || value.length < 2) return false;
  return value.every((row) => isRecord(row) && Object.values(row).every(isSimple));
}

/** Whether a value is an object with fields. */
export function isRecord(value: Json): value is { [key: string]: Json } {
  return !isSimple(value) && !Array.isArray(value);
}

function isSimple(value: Json): boolean {
  return value === null || typeof value !== "object" || value instanceof ExactNumber;
}

/** Text that is cut if it is long. */
export function LongText({ text, isCode = false }: { text: string; isCode?: boolean }) {
  const part = usePart(text.length, MAX_SHOWN_CHARACTERS);
  return (
    <>
      <pre className={isCode ? "long-text mono" : "long-text"} dir="auto">
        {showDirections(text.slice(0, part.count))}
      </pre>
      <MoreButton part={part} unit={t.units.characters} />
    </>
  );
}

function LongMarkdown({ text }: { text: string }) {
  const part = usePart(text.length, MAX_SHOWN_CHARACTERS);
  return (
    <>
      <Markdown text={showDirections(text.slice(0, part.count))} />
      <MoreButton part={part} unit={t.units.characters} />
    </>
  );
}

/** Source code in a box that scrolls. */
export function CodeBox({ label, text }: { label: string; text: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, and is then reached by the keyboard.
    <section className="code-box" aria-label={label} tabIndex={0}>
      <LongText text={text} isCode />
    </section>
  );
}

/** The fields of an object; a long text scrolls in its row. */
function Fields({ value }: { value: { [key: string]: Json } }) {
  const fields = Object.entries(value);
  if (fields.length === 0) return <span className="soft">{t.none}</span>;
  return (
    <dl className="value-fields">
      {fields.map(([name, field]) => (
        <div key={name}>
          <dt className="mono">{name}</dt>
          <dd>{isSimple(field) ? <LongText text={renderSimple(field)} /> : <Tree value={field} />}</dd>
        </div>
      ))}
    </dl>
  );
}

function Rows({ rows }: { rows: { [key: string]: Json }[] }) {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const part = usePart(rows.length, MAX_SHOWN_ITEMS);
  return (
    <div className="value-scroll">
      <table className="table">
        <TableHead columns={columns} />
        <tbody>
          {rows.slice(0, part.count).map((row, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: rows of a value have no identity but their position.
            <tr key={at}>
              {columns.map((column) => (
                <td key={column}>{renderSimple(row[column])}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      <MoreButton part={part} unit={t.units.rows} />
    </div>
  );
}

function Tree({ value }: { value: Json }) {
  return (
    <ul className="tree mono">
      <Branch value={value} depth={0} />
    </ul>
  );
}

function Branch({ name, value, depth }: { name?: string; value: Json; depth: number }) {
  const isLeaf = isSimple(value) || depth >= MAX_DEPTH;
  const entries = isLeaf ? [] : Object.entries(value as object);
  const [isOpen, setIsOpen] = useState(depth < OPEN_DEPTH && entries.length <= 30);
  const part = usePart(entries.length, MAX_SHOWN_ITEMS);
  const title = name === undefined ? "" : `${showDirections(name)}: `;
  if (isLeaf || entries.length === 0) {
    return (
      <li>
        <span className="tree-name">{title}</span>
        <span data-type={value === null ? "null" : typeof value}>{renderSimple(value)}</span>
      </li>
    );
  }
  const size = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  return (
    <li>
      <button type="button" className="tree-fold" aria-expanded={isOpen} onClick={() => setIsOpen(!isOpen)}>
        <span className="tree-name">{title}</span>
        <span className="faint">{size}</span>
      </button>
      {isOpen && (
        <ul>
          {entries.slice(0, part.count).map(([key, item]) => (
            <Branch key={key} name={key} value={item as Json} depth={depth + 1} />
          ))}
          {entries.length > part.count && (
            <li>
              <MoreButton part={part} unit={t.units.items} />
            </li>
          )}
        </ul>
      )}
    </li>
  );
}

function renderSimple(value: Json | undefined): string {
  if (value === undefined) return "";
  if (typeof value === "string") return showDirections(value);
  if (value instanceof ExactNumber) return value.text;
  return JSON.stringify(value);
}
