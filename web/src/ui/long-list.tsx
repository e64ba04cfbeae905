// Something long, of which the first portion is shown until the viewer wants more.
import { useState } from "react";
import { t } from "../strings";
import { formatNumber } from "./format";

/** How much of something long is shown, and how the viewer gets more. */
type ShownPart = { count: number; total: number; next: number; showMore: () => void };

/** The first portion of something long; each of the next ones is ten times as large. */
export function usePart(total: number, first: number): ShownPart {
  const [count, setCount] = useState(first);
  const next = Math.min(total, count * 10);
  return { count, total, next, showMore: () => setCount(next) };
}

export function MoreButton({ part, unit }: { part: ShownPart; unit: string }) {
  const { count, total, next, showMore } = part;
  if (count >= total) return null;
  return (
    <p className="value-more">
      <span className="soft">{t.shownOf(formatNumber(count), formatNumber(total), unit)}</span>{" "}
      <button type="button" className="button" onClick={showMore}>
        {next === total ? t.showAll : t.showMore(formatNumber(next - count))}
      </button>
    </p>
  );
}
