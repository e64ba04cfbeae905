// The places and their addresses. An address holds everything that a view shows, so that a link gives the same view.
import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from "@tanstack/react-router";
import { SERVER } from "./api/client";
import { NotFound } from "./places/not-found";
import { Shell } from "./shell/shell";
import { t } from "./strings";
import { ErrorBox } from "./ui/problem";

const rootRoute = createRootRoute({ component: Shell, notFoundComponent: NotFound });

/** A text of an address; anything else counts as absent. */
function readText(search: Record<string, unknown>, name: string): string | undefined {
  const value = search[name];
  return typeof value === "string" && value !== ""
    ? value
    : typeof value === "number"
      ? `${value}`
      : undefined;
}

function readCount(search: Record<string, unknown>, name: string): number | undefined {
  const value = Number(search[name]);
  return Number.isInteger(value) && value > 0 ? value : undefined;
}

/** Leaves out absent parts. */
function compact<Values extends Record<string, string | number | undefined>>(values: Values) {
  const present = Object.entries(values).filter(([, value]) => value !== undefined);
  return Object.fromEntries(present) as { [Name in keyof Values]?: Exclude<Values[Name], undefined> };
}

const homeRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/",
  component: lazyRouteComponent(() => import("./places/home/home"), "Home"),
});

const runsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/runs",
  validateSearch: (search: Record<string, unknown>) =>
    compact({
      status: readText(search, "status"),
      workflow: readText(search, "workflow"),
      trigger: readText(search, "trigger"),
      days: readCount(search, "days"),
      within: readCount(search, "within"),
    }),
  component: lazyRouteComponent(() => import("./places/runs/runs"), "Runs"),
});

const compareRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/runs/compare",
  validateSearch: (search: Record<string, unknown>) =>
    compact({
      left: readText(search, "left"),
      right: readText(search, "right"),
      step: readText(search, "step"),
    }),
  component: lazyRouteComponent(() => import("./places/compare/compare"), "Compare"),
});

const compareVersionsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/compare",
  validateSearch: (search: Record<string, unknown>) =>
    compact({ a: readText(search, "a"), b: readText(search, "b") }),
  component: lazyRouteComponent(() => import("./places/compare/compare-versions"), "CompareVersions"),
});

const runRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/runs/$run",
  validateSearch: (search: Record<string, unknown>) =>
    compact({ step: readText(search, "step"), at: readCount(search, "at"), tab: readText(search, "tab") }),
  component: lazyRouteComponent(() => import("./places/run/run-page"), "RunPage"),
});

const workflowRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/workflows/$workflow",
  validateSearch: (search: Record<string, unknown>) =>
    compact({ step: readText(search, "step"), view: readText(search, "view") }),
  component: lazyRouteComponent(() => import("./places/workflow/workflow-page"), "WorkflowPage"),
});

const newRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/new",
  validateSearch: (search: Record<string, unknown>) =>
    compact({ format: readText(search, "format"), template: readText(search, "template") }),
  component: lazyRouteComponent(() => import("./builder/new-workflow"), "NewWorkflow"),
});

const inboxRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/inbox",
  validateSearch: (search: Record<string, unknown>) => compact({ item: readText(search, "item") }),
  component: lazyRouteComponent(() => import("./places/inbox/inbox"), "Inbox"),
});

const createPlaceRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/create",
  validateSearch: (search: Record<string, unknown>) => compact({ run: readText(search, "run") }),
  component: lazyRouteComponent(() => import("./places/create/create"), "Create"),
});

const chatRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/chat",
  validateSearch: (search: Record<string, unknown>) =>
    compact({ with: readText(search, "with"), thread: readText(search, "thread") }),
  component: lazyRouteComponent(() => import("./places/chat/chat"), "Chat"),
});

const libraryRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/library",
  validateSearch: (search: Record<string, unknown>) =>
    compact({ kind: readText(search, "kind"), item: readText(search, "item") }),
  component: lazyRouteComponent(() => import("./places/library/library"), "Library"),
});

const testsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/tests",
  validateSearch: (search: Record<string, unknown>) => compact({ workflow: readText(search, "workflow") }),
  component: lazyRouteComponent(() => import("./places/tests/tests"), "Tests"),
});

const settingsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/settings",
  component: lazyRouteComponent(() => import("./places/settings/settings"), "Settings"),
});

export const router = createRouter({
  routeTree: rootRoute.addChildren([
    homeRoute,
    runsRoute,
    compareRoute,
    compareVersionsRoute,
    runRoute,
    workflowRoute,
    newRoute,
    inboxRoute,
    createPlaceRoute,
    chatRoute,
    libraryRoute,
    testsRoute,
    settingsRoute,
  ]),
  basepath: SERVER.pathname,
  defaultPreload: "intent",
  defaultPendingComponent: () => <p className="page soft">{t.loading}</p>,
  defaultErrorComponent: ({ error }) => (
    <div className="page">
      <ErrorBox error={error} />
    </div>
  ),
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
