"""A small MCP server for tests: JSON-RPC, one message per line. Arguments: a file to log each call to, and a mode."""

import json
import os
import subprocess
import sys

LOG = sys.argv[1] if len(sys.argv) > 1 else None
MODE = sys.argv[2] if len(sys.argv) > 2 else ""

NOTHING = {"type": "object", "properties": {}}
NUMBERS = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
PAGES = [
    [("add", "Adds two numbers.", NUMBERS), ("echo", "Says it again.", TEXT)],
    [("point", "A point.", NOTHING), ("environment", "Names of variables.", NOTHING), ("pid", "The process.", NOTHING)],
    [("spawn", "Starts a program.", NOTHING), ("fail", "Fails.", NOTHING), ("die", "Ends the server.", NOTHING), ("hang", "Never answers.", NOTHING),
     ("cancelled", "How many calls nobody waits for.", NOTHING)],
]
cancelled = 0


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


def listed(cursor):
    page = int(cursor or 0)
    tools = [{"name": n, "description": d, "inputSchema": s} for n, d, s in PAGES[page]]
    return {"tools": tools, **({"nextCursor": str(page + 1)} if page + 1 < len(PAGES) else {})}


def called(name, given):
    if LOG:
        with open(LOG, "a") as log:
            log.write(name + "\n")
    if name == "add":
        return text(str(given["a"] + given["b"]))
    if name == "echo":
        return text(given["text"])
    if name == "point":
        return text("a point", structuredContent={"x": 1, "y": [2, 3]})
    if name == "environment":
        return text("", structuredContent=sorted(os.environ))
    if name == "pid":
        return text(str(os.getpid()))
    if name == "spawn":
        return text(str(subprocess.Popen(["sleep", "600"]).pid))
    if name == "cancelled":
        return text(str(cancelled))
    if name == "fail":
        return text("the shelf is empty", isError=True)
    if name == "die":
        print("out of paper", file=sys.stderr, flush=True)
        os._exit(3)
    return None


if MODE == "refuse":
    print("no licence", file=sys.stderr, flush=True)
    sys.exit(1)
for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params") or {}
    if method == "notifications/cancelled":
        cancelled += 1
    if "id" not in message or MODE == "mute":
        continue
    result = None
    if method == "initialize":
        info = {"name": "test", "version": "1"}
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        result = listed(params.get("cursor"))
    elif method == "tools/call":
        result = called(params["name"], params.get("arguments") or {})
    if result is not None:
        send({"id": message["id"], "result": result})
