// The places of the navigation, with the letter that follows `g`.
import { t } from "../strings";
import type { IconName } from "../ui/icon";

export const PLACES = [
  { to: "/", icon: "home", title: t.places.home, key: "h" },
  { to: "/create", icon: "wand", title: t.places.create, key: "n" },
  { to: "/chat", icon: "chat", title: t.places.chat, key: "c" },
  { to: "/runs", icon: "runs", title: t.places.runs, key: "r" },
  { to: "/inbox", icon: "inbox", title: t.places.inbox, key: "i" },
  { to: "/library", icon: "library", title: t.places.library, key: "l" },
  { to: "/tests", icon: "tests", title: t.places.tests, key: "t" },
  { to: "/settings", icon: "settings", title: t.places.settings, key: "s" },
] as const satisfies { to: string; icon: IconName; title: string; key: string }[];
