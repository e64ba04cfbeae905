"""The Python SDK of the previous generation. Usage: client.py http URL | client.py stdio PROGRAM ARGUMENTS…"""

import os
import pathlib
import sys

import anyio
import httpx
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "mcp"))
from session import say, session  # noqa: E402


async def elicit(context, params):
    say("asked", params.message)
    return types.ElicitResult(action="accept", content={"answer": "tea"})


async def cancelled(client, name, arguments):
    """Cancels a call as soon as it reports progress. This generation leaves the notification to its user."""
    request = client._request_id
    with anyio.CancelScope() as scope:

        async def told(progress, total, message):
            scope.cancel()

        await client.call_tool(name, arguments, progress_callback=told)
    params = types.CancelledNotificationParams(requestId=request)
    await client.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))
    return scope.cancelled_caught


async def main():
    how, *rest = sys.argv[1:]
    if how == "http":
        key = os.environ.get("KEY")
        headers = {"authorization": f"Bearer {key}"} if key else {}
        transport = streamable_http_client(rest[0], http_client=httpx.AsyncClient(headers=headers, timeout=60))
    else:
        transport = stdio_client(StdioServerParameters(command=rest[0], args=rest[1:], env=dict(os.environ)))
    async with transport as (read, write, *_):
        async with ClientSession(read, write, elicitation_callback=elicit) as client:
            await client.initialize()
            await session(client, cancelled)


anyio.run(main)
