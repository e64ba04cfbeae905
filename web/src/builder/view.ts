// The view of workflows, which is kept until the tab is closed.

export type View = "build" | "source";

const KEY = "flowloom.view";

export function rememberView(view: View): void {
  sessionStorage.setItem(KEY, view);
}

export function readView(): View {
  return sessionStorage.getItem(KEY) === "build" ? "build" : "source";
}
