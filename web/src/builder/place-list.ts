// Places a list at its field, over everything else: below it, or above it where there is more room.
import { type CSSProperties, type RefObject, useLayoutEffect, useState } from "react";

const MAX_HEIGHT_PX = 280;
/** Space between the field and its list, and between the list and the edge of the window. */
const GAP_PX = 4;

type Field = { top: number; bottom: number; left: number; width: number };

/** The place of a list that is at most as high as there is room, in a window of this height. */
export function placeList({ top, bottom, left, width }: Field, windowHeight: number): CSSProperties {
  const below = windowHeight - bottom - 2 * GAP_PX;
  const above = top - 2 * GAP_PX;
  const isBelow = below >= MAX_HEIGHT_PX || below >= above;
  const maxHeight = Math.max(0, Math.min(MAX_HEIGHT_PX, isBelow ? below : above));
  return {
    left,
    width,
    maxHeight,
    ...(isBelow ? { top: bottom + GAP_PX } : { bottom: windowHeight - top + GAP_PX }),
  };
}

/** The place of the list of a field, also after the page was scrolled. */
export function useListPlace(field: RefObject<HTMLElement | null>): CSSProperties {
  const [place, setPlace] = useState<CSSProperties>({});
  useLayoutEffect(() => {
    const update = () => {
      const box = field.current?.getBoundingClientRect();
      if (box) setPlace(placeList(box, window.innerHeight));
    };
    update();
    window.addEventListener("resize", update);
    window.addEventListener("scroll", update, true);
    return () => {
      window.removeEventListener("resize", update);
      window.removeEventListener("scroll", update, true);
    };
  }, [field]);
  return place;
}
