// A menu behind a button: the arrow keys move, a letter finds, Enter chooses, Escape closes.
import { type KeyboardEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { Button } from "./button";
import { Icon, type IconName } from "./icon";
import "./menu.css";

export type MenuItem = {
  title: string;
  icon: IconName;
  /** Shown at the end of the item, such as why it cannot be chosen. */
  hint?: string | undefined;
  look?: "danger" | undefined;
  isDisabled?: boolean | undefined;
  run: () => void;
};

type MenuProps = {
  /** The text of the button, which names the menu. */
  label: string;
  /** Items that belong together; empty groups are left out. */
  groups: readonly (readonly (MenuItem | false | undefined)[])[];
  /** Whether the button shows three dots instead of the text. */
  isShort?: boolean;
  /** The key of the page that opens it. */
  shortcut?: string;
  /** Whether the menu is shown is known outside, for a key of the page. */
  isOpen: boolean;
  onOpen: (isOpen: boolean) => void;
};

export function Menu({ label, groups, isShort = false, shortcut, isOpen, onOpen }: MenuProps) {
  const id = useId();
  const frame = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const close = (isFocused: boolean) => {
    onOpen(false);
    if (isFocused) button.current?.focus();
  };
  useEffect(() => {
    if (!isOpen) return;
    const onPointer = (event: PointerEvent) => {
      if (event.target instanceof Node && !frame.current?.contains(event.target)) onOpen(false);
    };
    window.addEventListener("pointerdown", onPointer);
    return () => window.removeEventListener("pointerdown", onPointer);
  }, [isOpen, onOpen]);
  return (
    <div className="menu-frame" ref={frame}>
      <Button
        ref={button}
        aria-haspopup="menu"
        aria-keyshortcuts={shortcut}
        title={shortcut ? `${label} (${shortcut})` : isShort ? label : undefined}
        {...(isShort && { look: "quiet", "data-size": "icon", "aria-label": label })}
        aria-expanded={isOpen}
        aria-controls={isOpen ? id : undefined}
        onClick={() => onOpen(!isOpen)}
        onKeyDown={(event) => {
          if (event.key !== "ArrowDown" || isOpen) return;
          event.preventDefault();
          event.stopPropagation();
          onOpen(true);
        }}
      >
        {isShort ? (
          <Icon name="more" />
        ) : (
          <>
            {label}
            <Icon name="down" />
          </>
        )}
      </Button>
      {isOpen && <MenuList id={id} label={label} groups={groups} onClose={close} />}
    </div>
  );
}

type ListProps = Pick<MenuProps, "label" | "groups"> & {
  id: string;
  onClose: (isFocused: boolean) => void;
};

function MenuList({ id, label, groups, onClose }: ListProps) {
  const list = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState(0);
  const shown = groups
    .map((group) => group.filter((item) => item !== false && item !== undefined))
    .filter((group) => group.length > 0);
  const items = shown.flat();
  useEffect(() => {
    list.current?.querySelectorAll<HTMLElement>("[role=menuitem]")[at]?.focus({ preventScroll: false });
  }, [at]);
  const onKeyDown = (event: KeyboardEvent) => {
    // Commands of the page, such as the palette, are not keys of the menu.
    if (event.ctrlKey || event.metaKey) return;
    const next = nextPlace(event, at, items);
    if (next !== undefined) setAt(next);
    else if (event.key === "Escape") onClose(true);
    else if (event.key === "Tab") return onClose(false);
    else return event.stopPropagation();
    event.preventDefault();
    event.stopPropagation();
  };
  const choose = (item: MenuItem) => {
    if (item.isDisabled) return;
    onClose(true);
    item.run();
  };
  let place = -1;
  const toRow = (item: MenuItem): ReactNode => {
    place += 1;
    const own = place;
    return (
      <button
        key={item.title}
        type="button"
        role="menuitem"
        className="menu-item"
        data-look={item.look}
        aria-disabled={item.isDisabled || undefined}
        tabIndex={own === at ? 0 : -1}
        onMouseEnter={() => setAt(own)}
        onClick={() => choose(item)}
      >
        <Icon name={item.icon} />
        <span>{item.title}</span>
        {item.hint && <small>{item.hint}</small>}
      </button>
    );
  };
  return (
    <div
      id={id}
      className="menu"
      role="menu"
      aria-label={label}
      ref={list}
      tabIndex={-1}
      onKeyDown={onKeyDown}
    >
      {shown.map((group) => (
        // biome-ignore lint/a11y/useSemanticElements: a fieldset is a group of fields, and these are items of a menu.
        <div key={group[0]?.title} role="group" className="menu-group">
          {group.map(toRow)}
        </div>
      ))}
    </div>
  );
}

/** The item that a key leads to: the next, the first or last, or the next whose title begins with the letter. */
export function nextPlace(
  event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey">,
  at: number,
  items: readonly Pick<MenuItem, "title">[],
): number | undefined {
  const count = items.length;
  switch (event.key) {
    case "ArrowDown":
      return (at + 1) % count;
    case "ArrowUp":
      return (at - 1 + count) % count;
    case "Home":
      return 0;
    case "End":
      return count - 1;
  }
  if (event.key.length !== 1 || event.key === " " || event.ctrlKey || event.metaKey || event.altKey)
    return undefined;
  const letter = event.key.toLowerCase();
  const order = items.map((_, step) => (at + 1 + step) % count);
  return order.find((place) => items[place]?.title.toLowerCase().startsWith(letter));
}
