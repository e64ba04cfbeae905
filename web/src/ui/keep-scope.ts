// Keeps unsaved changes of a place in this browser, before something in it opens another place.
import { createContext } from "react";

/** False if the changes could not be kept. */
export const KeepScope = createContext<() => Promise<boolean>>(() => Promise.resolve(true));
