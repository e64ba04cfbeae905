"""The Python SDK of the current generation. Usage: client.py http URL | client.py stdio PROGRAM ARGUMENTS…"""

import os
import sys

import anyio
import httpx2
from mcp import Client, StdioServerParameters, types
from mcp.client.streamable_http import streamable_http_client

from session import say, session


async def elicit(context, params):
    say("asked", params.message)
    return types.ElicitResult(action="accept", content={"answer": "tea"})


async def cancelled(client, name, arguments):
    """Cancels a call as soon as it reports progress."""
    with anyio.CancelScope() as scope:

        async def told(progress, total, message):
            scope.cancel()

        await client.call_tool(name, arguments, progress_callback=told)
    return scope.cancelled_caught


async def main():
    how, *rest = sys.argv[1:]
    if how == "http":
        key = os.environ.get("KEY")
        headers = {"authorization": f"Bearer {key}"} if key else {}
        server = streamable_http_client(rest[0], http_client=httpx2.AsyncClient(headers=headers, timeout=60))
    else:
        server = StdioServerParameters(command=rest[0], args=rest[1:], env=dict(os.environ))
    async with Client(server, mode="2026-07-28", elicitation_callback=elicit) as client:
        await session(client, cancelled)


anyio.run(main)
