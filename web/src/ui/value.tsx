// Values of runs. Everything is shown as text: a value never becomes markup.
import { useState } from "react";
import { ExactNumber, formatJson, type Json } from "../api/json";
import { t } from "../strings";
import { CopyButton } from "./button";
import { Markdown } from "./markdown";

/** A longer text is cut until the viewer asks for the rest. */
const MAX_SHOWN_CHARACTERS = 20_000;
/** Longer lists and objects show their start. */
const MAX_SHOWN_ITEMS = 200;
/** Up to this depth, and with few items, a value is shown unfolded. */
const OPEN_DEPTH = 2;
/** Deeper values are shown as one line. */
const MAX_DEPTH = 60;

/** A longer address is shown as text. */
const MAX_PICTURE_CHARACTERS = 20_000_000;

type Look = "picture" | "text" | "formatted" | "tree" | "table" | "json";

const LOOK_NAMES: Record<Look, string> = {
  picture: "Picture",
  text: "Text",
  formatted: "Formatted",
  tree: "Tree",
  table: "Table",
  json: "JSON",
};

/** A value in the looks that fit it. */
export function ValueView({ value, label }: { value: Json; label: string }) {
  const looks = looksOf(value);
  const [chosen, setChosen] = useState<Look>();
  const look = chosen && looks.includes(chosen) ? chosen : (looks[0] ?? "json");
  const text = typeof value === "string" ? value : formatJson(value);
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
              {LOOK_NAMES[one]}
            </button>
          ))}
        <CopyButton text={() => text} />
      </header>
      <div className="value-body">
        {look === "picture" && <img className="value-picture" src={text.trim()} alt={label} />}
        {look === "text" && <LongText text={text} />}
        {look === "formatted" && <Markdown text={text.slice(0, MAX_SHOWN_CHARACTERS)} />}
        {look === "json" && <LongText text={text} isCode />}
        {look === "tree" && <Tree value={value} />}
        {look === "table" && <Rows rows={value as { [key: string]: Json }[]} />}
      </div>
    </section>
  );
}

function looksOf(value: Json): Look[] {
  if (typeof value === "string") return isPicture(value) ? ["picture", "text"] : ["text", "formatted"];
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
  const isRow = (row: Json) =>
    row !== null && typeof row === "object" && !Array.isArray(row) && !(row instanceof ExactNumber);
  return value.every((row) => isRow(row) && Object.values(row as object).every(isSimple));
}

function isSimple(value: Json): boolean {
  return value === null || typeof value !== "object" || value instanceof ExactNumber;
}

/** Text that is cut if it is long. */
export function LongText({ text, isCode = false }: { text: string; isCode?: boolean }) {
  const [isWhole, setIsWhole] = useState(false);
  const isCut = !isWhole && text.length > MAX_SHOWN_CHARACTERS;
  return (
    <>
      <pre className={isCode ? "long-text mono" : "long-text"} dir="auto">
        {isCut ? text.slice(0, MAX_SHOWN_CHARACTERS) : text}
      </pre>
      {isCut && (
        <button type="button" className="button" onClick={() => setIsWhole(true)}>
          {t.showAll(text.length)}
        </button>
      )}
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

function Rows({ rows }: { rows: { [key: string]: Json }[] }) {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return (
    <div className="value-scroll">
      <table className="table">
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column} scope="col">
                {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, MAX_SHOWN_ITEMS).map((row, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: rows of a value have no identity but their position.
            <tr key={at}>
              {columns.map((column) => (
                <td key={column}>{renderSimple(row[column])}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
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
  const title = name === undefined ? "" : `${name}: `;
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
          {entries.slice(0, MAX_SHOWN_ITEMS).map(([key, item]) => (
            <Branch key={key} name={key} value={item as Json} depth={depth + 1} />
          ))}
          {entries.length > MAX_SHOWN_ITEMS && (
            <li className="faint">{t.moreItems(entries.length - MAX_SHOWN_ITEMS)}</li>
          )}
        </ul>
      )}
    </li>
  );
}

function renderSimple(value: Json | undefined): string {
  if (value === undefined) return "";
  if (typeof value === "string") return value;
  if (value instanceof ExactNumber) return value.text;
  return JSON.stringify(value);
}
