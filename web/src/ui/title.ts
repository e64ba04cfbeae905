// The title of the browser's tab: what the place shows.
import { useEffect } from "react";
import { t } from "../strings";

export function useTitle(title: string | undefined): void {
  useEffect(() => {
    document.title = title ? `${title} · ${t.product}` : t.product;
  }, [title]);
}
