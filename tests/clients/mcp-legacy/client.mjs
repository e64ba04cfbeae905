// The TypeScript SDK of the previous generation. Usage: client.mjs SET http URL | client.mjs SET stdio PROGRAM ARGUMENTS…
import { createRequire } from "node:module";
import { session } from "../mcp/session.mjs";

const [set, how, ...rest] = process.argv.slice(2);
const require = createRequire(`${set}/`);
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { ElicitRequestSchema } = require("@modelcontextprotocol/sdk/types.js");

const client = new Client({ name: "tester", version: "1" }, { capabilities: { elicitation: {} } });
await session(client, {
  how,
  rest,
  Http: StreamableHTTPClientTransport,
  Stdio: StdioClientTransport,
  onElicit: (handler) => client.setRequestHandler(ElicitRequestSchema, handler),
  call: (params, options) => client.callTool(params, undefined, options),
});
