// An address without a place, or of something that does not exist.
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { t } from "../strings";
import { EmptyPlace } from "../ui/problem";

export function NotFound() {
  return <NothingHere>{t.errors.notFoundHelp}</NothingHere>;
}

/** Explains why there is nothing, and links to other pages. */
export function NothingHere({ children }: { children: ReactNode }) {
  return (
    <EmptyPlace title={t.errors.notFound}>
      <p>{children}</p>
      <Link to="/" className="button">
        {t.errors.toHome}
      </Link>
    </EmptyPlace>
  );
}
