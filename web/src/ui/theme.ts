// Light, dark, or as in the system. The choice is kept in this browser.

export type Theme = "system" | "light" | "dark";

const STORAGE_KEY = "flowloom-theme";
const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };

export function readTheme(): Theme {
  const stored = localStorage.getItem(STORAGE_KEY);
  return stored === "light" || stored === "dark" ? stored : "system";
}

export function applyTheme(): void {
  document.documentElement.dataset.theme = readTheme();
}

/** Switches to the next theme and returns it. */
export function switchTheme(): Theme {
  const next = NEXT[readTheme()];
  localStorage.setItem(STORAGE_KEY, next);
  applyTheme();
  return next;
}
