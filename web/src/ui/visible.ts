// Whether an element has been in view.
import { type RefObject, useEffect, useRef, useState } from "react";

/** A reference for an element, and whether it has been in view since it was drawn. */
export function useSeen<Target extends Element>(): [RefObject<Target | null>, boolean] {
  const element = useRef<Target>(null);
  const [isSeen, setIsSeen] = useState(false);
  useEffect(() => {
    if (!element.current || isSeen) return;
    const observer = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) setIsSeen(true);
    });
    observer.observe(element.current);
    return () => observer.disconnect();
  }, [isSeen]);
  return [element, isSeen];
}
