"""A warehouse as an MCP server on stdio: JSON-RPC, one message a line. Only the standard library."""

import json
import sys

SHELF = {"lamp": 3, "desk": 0}
ITEM = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
TOOLS = [
    {"name": "count", "description": "How many of an item are in stock.", "inputSchema": ITEM},
    {"name": "reserve", "description": "Puts one of an item aside.", "inputSchema": ITEM},
]


def call(tool, item):
    if item not in SHELF:
        return {"content": [{"type": "text", "text": f"there is no {item} here"}], "isError": True}
    if tool == "reserve":
        SHELF[item] = max(0, SHELF[item] - 1)
    return {"content": [], "structuredContent": {"item": item, "left": SHELF[item]}}


def answer(method, params):
    if method == "initialize":
        info = {"name": "stock", "version": "1.0.0"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return call(params["name"], params["arguments"]["item"])
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
