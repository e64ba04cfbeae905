"""A server of the current generation on a free port, whose address is the first line."""

import socket
import sys

import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("adder")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


listener = socket.create_server(("127.0.0.1", 0))
print(f"127.0.0.1:{listener.getsockname()[1]}", flush=True)
app = server.streamable_http_app()
uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])
