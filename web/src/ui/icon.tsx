// Icons as lines on a grid of 16 units. They are decoration: the text next to an icon, or its label, has the same
// meaning.

const PATHS = {
  home: "M2.5 7.5 8 3l5.5 4.5M4 6.5V13h8V6.5",
  chat: "M2.5 3h11v8H7l-3.5 3v-3h-1z",
  wand: "M3 13 10 6M11.5 2v2.5M14 4.5h-2.5M13 9v1.5M13.8 9.8h-1.6M5.5 2.5V4M6.3 3.2H4.7M9 7l-1-1",
  library: "M3 2.5h3v11H3zM6 2.5h3v11H6zM9.6 3.4l2.9-.8 2.6 10.4-2.9.7z",
  tests: "M6 2h4M7 2v4L3.5 12.5A1 1 0 0 0 4.4 14h7.2a1 1 0 0 0 .9-1.5L9 6V2M5.3 9.5h5.4",
  attach: "M11.5 6.5 7 11a2 2 0 0 1-3-3l5.5-5.5a3 3 0 0 1 4.2 4.3L8 12.5a4 4 0 0 1-5.6-5.6",
  send: "M2.5 13.5 14 8 2.5 2.5 4 8zM4 8h5",
  edit: "M3 13l.6-3L10.5 3 13 5.5 6 12.4zM9 4.5 11.5 7",
  trash: "M3 4.5h10M6.5 4.5V3h3v1.5M4.5 4.5 5 13.5h6l.5-9",
  runs: "M2.5 4h7M4.5 8h7M6.5 12h7",
  inbox: "M2.5 9 4.5 3.5h7l2 5.5v3.5h-11zM2.5 9H6l1 1.8h2L10 9h3.5",
  settings: "M2.5 4.5h6M12 4.5h1.5M2.5 11.5H4M7.5 11.5h6M10.2 3v3M5.8 10v3",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10M10.7 10.7 14 14",
  help: "M6 6a2 2 0 1 1 2.8 1.9c-.5.2-.8.7-.8 1.3M8 11.6v.1M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6M8 1.5V3M8 13v1.5M1.5 8H3M13 8h1.5M3.4 3.4l1 1M11.6 11.6l1 1M12.6 3.4l-1 1M4.4 11.6l-1 1",
  close: "M4 4l8 8M12 4l-8 8",
  check: "M3 8.5 6.5 12 13 4.5",
  cross: "M4 4l8 8M12 4l-8 8",
  clock: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12M8 5v3.3l2 1.2",
  spin: "M14 8a6 6 0 1 1-3-5.2",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M4.5 3v10l8.5-5z",
  skip: "M3 4l5 4-5 4M9 4v8M12 4v8",
  stop: "M4 4h8v8H4z",
  warn: "M8 2.5 14.2 13H1.8zM8 6.5v3M8 11.3v.1",
  undo: "M3 7h6.5a3.5 3.5 0 0 1 0 7H6M3 7l3-3M3 7l3 3",
  dollar: "M11 5c-.4-1-1.5-1.6-3-1.6-3.6 0-4 4.1 0 4.6 4.2.5 3.8 4.6 0 4.6-1.6 0-2.7-.6-3.2-1.7M8 2v12",
  first: "M4 3.5v9M12 3.5 6 8l6 4.5z",
  last: "M12 3.5v9M4 3.5 10 8l-6 4.5z",
  left: "M10 3.5 5 8l5 4.5",
  right: "M6 3.5 11 8l-5 4.5",
  down: "M3.5 6 8 11l4.5-5",
  up: "M3.5 10 8 5l4.5 5",
  redo: "M13 7H6.5a3.5 3.5 0 0 0 0 7H10M13 7l-3-3M13 7l-3 3",
  swap: "M3 5.5h9M9.5 3 12 5.5 9.5 8M13 10.5H4M6.5 8 4 10.5 6.5 13",
  link: "M6.5 9.5l3-3M7 4.5l1-1a3 3 0 0 1 4.3 4.3l-1 1M9 11.5l-1 1a3 3 0 0 1-4.3-4.3l1-1",
  model: "M8 1.5l1.5 4L13.5 7l-4 1.5L8 12.5l-1.5-4L2.5 7l4-1.5zM13 11.5v3M11.5 13h3",
  http: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12M2 8h12M8 2c4 4 4 8 0 12M8 2c-4 4-4 8 0 12",
  code: "M5.5 4.5 2 8l3.5 3.5M10.5 4.5 14 8l-3.5 3.5",
  tool: "M10 2.5a3.5 3.5 0 0 0-3 5L2.5 12 4 13.5 8.5 9a3.5 3.5 0 0 0 5-4L11.5 7 9.5 6.5 9 4.5z",
  person: "M8 8a2.7 2.7 0 1 0 0-5.4A2.7 2.7 0 0 0 8 8M2.8 14c.4-2.7 2.5-4 5.2-4s4.8 1.3 5.2 4",
  memory: "M3 4c0-2 10-2 10 0v8c0 2-10 2-10 0zM3 4c0 2 10 2 10 0M3 8c0 2 10 2 10 0",
  branch: "M8 2v4M8 6 4 10v4M8 6l4 4v4",
  agent: "M4 6.5h8v6H4zM8 3.5v3M6.3 9v.8M9.7 9v.8M2.5 9v1.5M13.5 9v1.5",
  step: "M3 3h10v10H3z",
  plus: "M8 3v10M3 8h10",
  history: "M3 8a5 5 0 1 0 1.6-3.7M3 2.5v3h3M8 5.5V8l2 1.2",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  duplicate: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3M9.5 7.5v4M7.5 9.5h4",
  paste: "M5.5 3.5H3.5v10h9v-10h-2M5.5 2.5h5v2.5h-5zM8 7v4M6.2 9.4 8 11.2l1.8-1.8",
  download: "M8 2.5v7.5M4.5 7 8 10.5 11.5 7M3 13.5h10",
  open: "M6.5 3.5h6V9.5M12.5 3.5 4 12",
  more: "M3.5 8h.1M8 8h.1M12.5 8h.1",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg className="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

const KIND_ICONS: Record<string, IconName> = {
  generate: "model",
  http: "http",
  scrape: "http",
  call: "tool",
  tools: "tool",
  python: "code",
  ask: "person",
  wait: "clock",
  memory_get: "memory",
  memory_set: "memory",
  memories: "memory",
  memory: "memory",
  branch: "branch",
  Loop: "undo",
  agent: "agent",
  turn: "agent",
};

/** The icon for a kind of step. */
export function kindIcon(kind: string | undefined): IconName {
  return KIND_ICONS[kind ?? ""] ?? "step";
}
