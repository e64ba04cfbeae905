// The API key of this tab. It is kept for the session of the tab and sent as a header, never in an address.

const STORAGE_KEY = "flowloom-key";

type Listener = () => void;
const listeners = new Set<Listener>();
let isWanted = false;
let isChanging = false;

/** The key that the viewer entered. */
export function readKey(): string | null {
  return sessionStorage.getItem(STORAGE_KEY);
}

/** Keeps a key, or forgets it. */
export function storeKey(key: string | null): void {
  if (key === null) sessionStorage.removeItem(STORAGE_KEY);
  else sessionStorage.setItem(STORAGE_KEY, key);
  isWanted = false;
  isChanging = false;
  announce();
}

/** Lets the viewer enter another key, or not. */
export function changeKey(isChanged: boolean): void {
  isChanging = isChanged;
  announce();
}

/** Notes that the server refused a request for its key. */
export function requestKey(): void {
  if (isWanted) return;
  isWanted = true;
  announce();
}

/**
 * Why the viewer is asked for a key: the server needs one, it refused the one that was entered, or the viewer wants
 * another one. Undefined if the viewer is not asked.
 */
export type KeyReason = "missing" | "refused" | "changing";

export function readKeyReason(): KeyReason | undefined {
  if (isWanted) return readKey() === null ? "missing" : "refused";
  return isChanging ? "changing" : undefined;
}

/** Calls `listener` whenever one of the above changes. */
export function subscribeToKey(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The headers that authenticate a request. */
export function keyHeaders(): Record<string, string> {
  const key = readKey();
  return key ? { authorization: `Bearer ${key}` } : {};
}

function announce(): void {
  for (const listener of listeners) listener();
}
