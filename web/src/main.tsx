// Starts the page.
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ApiError } from "./api/client";
import { followKey } from "./api/follow-key";
import { readKeyReason, subscribeToKey } from "./api/key";
import { router } from "./router";
import { applyTheme } from "./ui/theme";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/shell.css";
import "./styles/value.css";

/** How often a page that could not be loaded tries again. */
const RETRY_MS = 5000;

function isUnreachable({ status, error }: { status: string; error: unknown }): boolean {
  return status === "error" && !(error instanceof ApiError);
}

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2000,
      // What the server refused, it refuses again.
      retry: (count, error) => count < 2 && !(error instanceof ApiError),
      refetchInterval: ({ state }) => (isUnreachable(state) ? RETRY_MS : false),
    },
  },
});

applyTheme();
subscribeToKey(() => {
  if (readKeyReason() === undefined) void followKey(queries);
});

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </StrictMode>,
  );
}
