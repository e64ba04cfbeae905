// The frame of every place: navigation, search, shortcuts, the key of the tab.
import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useNavigate } from "@tanstack/react-router";
import { useRef, useState, useSyncExternalStore } from "react";
import { SERVER } from "../api/client";
import { readKeyReason, subscribeToKey } from "../api/key";
import { waitingQuery } from "../api/queries";
import { t } from "../strings";
import { Button, IconButton } from "../ui/button";
import { useCutTitles } from "../ui/cut-titles";
import { Icon } from "../ui/icon";
import { isTyping, useKeys } from "../ui/keyboard";
import { showNotice, useNotice } from "../ui/notices";
import { useNotifications } from "../ui/notifications";
import { readTheme, switchTheme } from "../ui/theme";
import { KeyDialog } from "./key-dialog";
import { KeyList } from "./key-list";
import { Palette } from "./palette";
import { PLACES } from "./places";

type Overlay = "palette" | "keys" | undefined;

export function Shell() {
  const [overlay, setOverlay] = useState<Overlay>();
  const keyReason = useSyncExternalStore(subscribeToKey, readKeyReason);
  useShortcuts(setOverlay);
  useCutTitles();
  const navigate = useNavigate();
  useNotifications((item) => void navigate({ to: "/inbox", search: { item } }));
  return (
    <div className="shell">
      <a className="skip-link" href="#main">
        {t.skip}
      </a>
      <Navigation onOpen={setOverlay} />
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, and is then reached by the keyboard. */}
      <main className="main" id="main" tabIndex={0}>
        <Outlet />
      </main>
      <ShownNotice />
      {overlay === "palette" && <Palette onClose={() => setOverlay(undefined)} />}
      {overlay === "keys" && <KeyList onClose={() => setOverlay(undefined)} />}
      {keyReason && <KeyDialog reason={keyReason} />}
    </div>
  );
}

/** What has just been done, and how to take it back. */
function ShownNotice() {
  const notice = useNotice();
  if (!notice) return null;
  return (
    <div className="notice" role="status">
      <span>{notice.text}</span>
      <Button
        onClick={() => {
          showNotice(undefined);
          notice.run();
        }}
      >
        {notice.action}
      </Button>
      <IconButton icon="close" label={t.close} onClick={() => showNotice(undefined)} />
    </div>
  );
}

function Navigation({ onOpen }: { onOpen: (overlay: Overlay) => void }) {
  const waiting = useQuery(waitingQuery).data?.length ?? 0;
  const [theme, setTheme] = useState(readTheme);
  return (
    <nav className="nav" aria-label={t.product}>
      <Link to="/" className="nav-name">
        <img src={new URL("favicon.svg", SERVER).href} alt="" />
        {t.product}
      </Link>
      {PLACES.map((place) => (
        <Link
          key={place.to}
          to={place.to}
          className="nav-link"
          title={place.title}
          activeOptions={{ exact: place.to === "/" }}
        >
          <Icon name={place.icon} />
          {place.title}
          {place.to === "/inbox" && waiting > 0 && <span className="nav-count number">{waiting}</span>}
        </Link>
      ))}
      <div className="nav-foot">
        <button type="button" className="nav-link" onClick={() => onOpen("palette")}>
          <Icon name="search" />
          {t.palette.open}
          <kbd>Ctrl K</kbd>
        </button>
        <button type="button" className="nav-link nav-keys" onClick={() => onOpen("keys")}>
          <Icon name="help" />
          {t.keys.open}
          <kbd>?</kbd>
        </button>
        <button
          type="button"
          className="nav-link"
          title={t.theme.switch}
          onClick={() => setTheme(switchTheme())}
        >
          <Icon name="sun" />
          {t.theme[theme]}
        </button>
      </div>
    </nav>
  );
}

/** `Ctrl+K`, `?`, and `g` followed by the letter of a place. */
function useShortcuts(open: (overlay: Overlay) => void): void {
  const navigate = useNavigate();
  const isGoing = useRef(false);
  useKeys((event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      open("palette");
      return;
    }
    if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
    const place = isGoing.current ? PLACES.find((one) => one.key === event.key) : undefined;
    isGoing.current = event.key === "g";
    if (place) void navigate({ to: place.to });
    else if (event.key === "?") open("keys");
  });
}
