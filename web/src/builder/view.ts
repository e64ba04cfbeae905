// The view of workflows: the one that was chosen last, in this browser, and else the builder.

export const VIEWS = ["build", "source", "cost"] as const;
export type View = (typeof VIEWS)[number];

const KEY = "flowloom.view";

export function rememberView(view: View): void {
  try {
    localStorage.setItem(KEY, view);
  } catch {
    // A browser without storage remembers nothing.
  }
}

/** The view in which a definition opens. A program in JavaScript has no forms. */
export function readView(entry: string): View {
  if (/\.[cm]?js$/.test(entry)) return "source";
  return readKept() ?? "build";
}

function readKept(): View | undefined {
  try {
    const kept = localStorage.getItem(KEY);
    return VIEWS.find((view) => view === kept);
  } catch {
    return undefined;
  }
}
