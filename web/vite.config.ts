import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// Relative addresses: the page works behind a path prefix, which the server writes into <base>.
export default defineConfig({
  base: "./",
  plugins: [react()],
  build: {
    // The program embeds this folder.
    outDir: "../crates/studio/page",
    emptyOutDir: false,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 700,
  },
  server: { proxy: { "/api": "http://127.0.0.1:8700" } },
  test: { include: ["src/**/*.test.ts"] },
});
