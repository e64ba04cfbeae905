// An address without a place.
import { Link } from "@tanstack/react-router";
import { t } from "../strings";
import { Empty } from "../ui/problem";

export function NotFound() {
  return (
    <Empty title={t.errors.notFound}>
      <p>{t.errors.notFoundHelp}</p>
      <Link to="/" className="button">
        {t.errors.toHome}
      </Link>
    </Empty>
  );
}
