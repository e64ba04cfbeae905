// The view of workflows, which is kept until the tab is closed.

export type View = "build" | "source" | "cost";

const KEY = "flowloom.view";

export function rememberView(view: View): void {
  sessionStorage.setItem(KEY, view);
}

export function readView(): View {
  const kept = sessionStorage.getItem(KEY);
  return kept === "build" || kept === "cost" ? kept : "source";
}
