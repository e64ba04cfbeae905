"""What both generations of the Python SDK do with the server: each line that is printed is one thing that they saw."""

import json


def say(what, seen):
    print(json.dumps({what: seen}), flush=True)


def field(thing, *names):
    """A field whose name differs between the generations."""
    return next(getattr(thing, name) for name in names if hasattr(thing, name))


def shown(result):
    structured = field(result, "structured_content", "structuredContent")
    error = field(result, "is_error", "isError")
    return {"structured": structured, "text": result.content[0].text, "error": bool(error)}


async def session(client, cancelled):
    tools = (await client.list_tools()).tools
    say("tools", {tool.name: field(tool, "input_schema", "inputSchema") for tool in tools})
    say("hello", shown(await client.call_tool("hello", {"input": "hi"})))
    say("wrong", shown(await client.call_tool("hello", {"output": "hi"})))
    try:
        await client.call_tool("nothing", {})
    except Exception as error:
        say("unknown", error.error.code)
    say("failed", shown(await client.call_tool("fails", {"input": "x"})))
    say("answered", shown(await client.call_tool("ask-a-person", {"input": "x"})))
    say("cancelled", await cancelled(client, "two_calls", {}))

    told = []

    async def progress(progress, total, message):
        if not told:
            say("progress", message)
        told.append(progress)

    slow = await client.call_tool("two_calls", {"a": "2"}, progress_callback=progress)
    say("slow", {**shown(slow), "grows": sorted(set(told)) == told})
