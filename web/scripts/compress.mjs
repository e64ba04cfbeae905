// Compresses the built files once, so that the server only sends them. Prints the size of what the first page loads.
import { readdir, readFile, writeFile } from "node:fs/promises";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const dist = new URL("../../crates/studio/page/", import.meta.url);
const MAX_FIRST_SCRIPT_BYTES = 200 * 1024;

const names = (await readdir(dist, { recursive: true })).filter((name) => /\.(js|css|svg|html)$/.test(name));
const gzipBytes = new Map();
for (const name of names) {
  const content = await readFile(new URL(name, dist));
  const gzip = gzipSync(content, { level: 9 });
  gzipBytes.set(name, gzip.length);
  // The server changes the page itself before it sends it.
  if (name === "index.html") continue;
  await writeFile(new URL(`${name}.gz`, dist), gzip);
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11 };
  await writeFile(new URL(`${name}.br`, dist), brotliCompressSync(content, { params }));
}

const page = await readFile(new URL("index.html", dist), "utf8");
const first = names.filter((name) => name.endsWith(".js") && page.includes(name));
const bytes = first.reduce((sum, name) => sum + gzipBytes.get(name), 0);
console.log(`first load: ${(bytes / 1024).toFixed(1)} KB of script (gzip) in ${first.length} files`);
if (bytes > MAX_FIRST_SCRIPT_BYTES) {
  console.error(
    `error: the first load exceeds ${MAX_FIRST_SCRIPT_BYTES / 1024} KB; load parts of it on demand`,
  );
  process.exit(1);
}
