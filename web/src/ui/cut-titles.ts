// Texts that do not fit are cut with an ellipsis, in one line or after several. Pointing at one shows all of it.
import { useEffect } from "react";

/** How many elements around the one that is pointed at may be those that cut it. */
const MAX_AROUND = 3;

/** Elements whose title is not their own. */
const added = new WeakSet<Element>();

/** Shows the whole text of whatever is cut and pointed at, in every place. */
export function useCutTitles(): void {
  useEffect(() => {
    const listen = ({ target }: PointerEvent) => {
      if (target instanceof HTMLElement) showWhole(target);
    };
    document.addEventListener("pointerover", listen);
    return () => document.removeEventListener("pointerover", listen);
  }, []);
}

function showWhole(target: HTMLElement): void {
  const around: HTMLElement[] = [];
  for (let element: HTMLElement | null = target; element && around.length <= MAX_AROUND; ) {
    around.push(element);
    element = element.parentElement;
  }
  const cutter = around.find(cutsText);
  if (cutter) updateTitle(cutter);
}

/** Whether an element cuts a text that does not fit: at the end of its line, or after its last line. */
function cutsText(element: HTMLElement): boolean {
  return getComputedStyle(element).textOverflow === "ellipsis" || cutsLines(element);
}

function cutsLines(element: HTMLElement): boolean {
  return !["none", ""].includes(getComputedStyle(element).webkitLineClamp);
}

/** Gives an element the title that it needs now. One that the place has given stays: it is more informative. */
function updateTitle(element: HTMLElement): void {
  if (element.title !== "" && !added.has(element)) return;
  const hidesLines = cutsLines(element) && element.scrollHeight > element.clientHeight + 1;
  const isCut = hidesLines || element.scrollWidth > element.clientWidth;
  if (isCut) {
    element.title = element.innerText.replace(/\s+/g, " ").trim();
    added.add(element);
  } else if (added.delete(element)) {
    element.removeAttribute("title");
  }
}
