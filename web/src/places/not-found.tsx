// An address without a place.
import { Link } from "@tanstack/react-router";
import { t } from "../strings";
import { EmptyPlace } from "../ui/problem";

export function NotFound() {
  return (
    <EmptyPlace title={t.errors.notFound}>
      <p>{t.errors.notFoundHelp}</p>
      <Link to="/" className="button">
        {t.errors.toHome}
      </Link>
    </EmptyPlace>
  );
}
