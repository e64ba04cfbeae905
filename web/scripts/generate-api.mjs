// Writes the types of the server's API. Their source is the snapshot of /openapi.json that the tests of the server keep,
// so a changed route breaks the build of the page.
import { readFile, writeFile } from "node:fs/promises";
import openapiTS, { astToString } from "openapi-typescript";

const snapshot = new URL("../../crates/flowloom/tests/api/openapi.snap", import.meta.url);
const types = new URL("../src/api/schema.gen.ts", import.meta.url);

const text = await readFile(snapshot, "utf8");
const document = JSON.parse(text.slice(text.indexOf("{")));
await writeFile(types, astToString(await openapiTS(document, { defaultNonNullable: false })));
