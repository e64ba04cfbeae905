// Boxes that show the end of something that grows.
import { useEffect, useRef } from "react";

/**
 * A box that stays at its end while things are added, unless the reader has scrolled up. With another `count` it goes there
 * anyway.
 */
export function useFollowedEnd(count: number) {
  const element = useRef<HTMLDivElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another count goes to the end, wherever the reader is.
  useEffect(() => {
    const box = element.current;
    if (box) box.scrollTop = box.scrollHeight;
  }, [count]);
  useEffect(() => {
    const box = element.current;
    if (!box) return;
    let isAtEnd = true;
    const note = () => {
      isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 48;
    };
    const observer = new MutationObserver(() => {
      if (isAtEnd) box.scrollTop = box.scrollHeight;
    });
    box.addEventListener("scroll", note, { passive: true });
    observer.observe(box, { childList: true, subtree: true, characterData: true });
    return () => {
      box.removeEventListener("scroll", note);
      observer.disconnect();
    };
  }, []);
  return element;
}
