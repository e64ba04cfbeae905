// The TypeScript SDK of the current generation. Usage: client.mjs SET http URL | client.mjs SET stdio PROGRAM ARGUMENTS…
import { createRequire } from "node:module";
import { session } from "../mcp/session.mjs";

const [set, how, ...rest] = process.argv.slice(2);
const require = createRequire(`${set}/`);
const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

const options = { capabilities: { elicitation: {} }, versionNegotiation: { mode: { pin: "2026-07-28" } } };
const client = new Client({ name: "tester", version: "1" }, options);
await session(client, {
  how,
  rest,
  Http: StreamableHTTPClientTransport,
  Stdio: StdioClientTransport,
  onElicit: (handler) => client.setRequestHandler("elicitation/create", handler),
  call: (params, options) => client.callTool(params, options),
});
