// Actions in a row: as many as fit are buttons, and the others are in a menu at its end.
import { useLayoutEffect, useRef, useState } from "react";
import { t } from "../strings";
import { Button } from "./button";
import { Menu, type MenuItem } from "./menu";
import "./action-row.css";

const GAP_PX = 4;
/** The width that a button needs in addition to its text: the icon and the space around both. */
const BUTTON_FRAME_PX = 46;
const CHARACTER_PX = 7.2;
const MENU_PX = 36;

export function ActionRow({ items }: { items: readonly MenuItem[] }) {
  const row = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(Number.POSITIVE_INFINITY);
  const [isOpen, setIsOpen] = useState(false);
  useLayoutEffect(() => {
    const element = row.current;
    if (!element) return;
    setWidth(element.clientWidth);
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const count = countFitting(
    items.map(({ title }) => title),
    width,
  );
  return (
    <div className="action-row" ref={row}>
      {items.slice(0, count).map(({ title, icon, hint, isDisabled, run }) => (
        <Button key={title} look="quiet" icon={icon} disabled={isDisabled} title={hint} onClick={run}>
          {title}
        </Button>
      ))}
      {count < items.length && (
        <Menu
          label={t.moreActions}
          isShort
          groups={[items.slice(count)]}
          isOpen={isOpen}
          onOpen={setIsOpen}
        />
      )}
    </div>
  );
}

/** How many buttons with these texts fit into a width, with a menu for the others if there are any. */
export function countFitting(texts: readonly string[], width: number): number {
  const sizes = texts.map((text) => BUTTON_FRAME_PX + text.length * CHARACTER_PX);
  let used = 0;
  for (const [at, size] of sizes.entries()) {
    used += size + (at > 0 ? GAP_PX : 0);
    const isLast = at === sizes.length - 1;
    if (used + (isLast ? 0 : GAP_PX + MENU_PX) > width) return at;
  }
  return sizes.length;
}
