"""LangGraph on the workloads of `bench`: see bench/peers/README.md."""

import asyncio
import operator
import os
import sys
import uuid
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, TypedDict

sys.path.insert(0, str(Path(__file__).parent.parent))
import turns
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send


class Counter(TypedDict):
    count: int


class Parts(TypedDict):
    parts: Annotated[list, operator.add]
    total: int


class Messages(TypedDict):
    messages: Annotated[list, operator.add]


async def count_step(state):
    return {"count": state["count"] + 1}


async def count_slowly(state):
    await asyncio.sleep(0.02)
    return {"count": state["count"] + 1}


def chain(n, step=count_step, checkpointer=None):
    graph = StateGraph(Counter)
    previous = START
    for index in range(n):
        graph.add_node(f"n{index}", step)
        graph.add_edge(previous, f"n{index}")
        previous = f"n{index}"
    graph.add_edge(previous, END)
    return graph.compile(checkpointer=checkpointer)


def options(n, is_stored):
    """A thread of its own for each run; every step is stored before the next begins."""
    config = {"recursion_limit": n + 10}
    if not is_stored:
        return {"config": config}
    config["configurable"] = {"thread_id": str(uuid.uuid4())}
    return {"config": config, "durability": "sync"}


def run_chain(n, checkpointer=None):
    graph = chain(n, checkpointer=checkpointer)

    async def run_once():
        result = await graph.ainvoke({"count": 0}, **options(n, checkpointer))
        assert result["count"] == n

    return run_once


def run_cycle(n):
    """Two nodes that lead to each other, for n nodes."""
    graph = StateGraph(Counter)
    graph.add_node("one", count_step)
    graph.add_node("other", count_step)
    graph.add_edge(START, "one")
    graph.add_edge("one", "other")
    graph.add_conditional_edges("other", lambda state: "one" if state["count"] < n else END, ["one", END])
    graph = graph.compile()

    async def run_once():
        result = await graph.ainvoke({"count": 0}, **options(n, None))
        assert result["count"] == n

    return run_once


def run_fan(n, seconds):
    async def begin(_state):
        return {}

    async def part(state):
        if seconds:
            await asyncio.sleep(seconds)
        return {"parts": [state["index"] + 1]}

    async def collect(state):
        return {"total": len(state["parts"])}

    graph = StateGraph(Parts)
    graph.add_node("begin", begin)
    graph.add_node("part", part)
    graph.add_node("collect", collect)
    graph.add_edge(START, "begin")
    graph.add_conditional_edges("begin", lambda _: [Send("part", {"index": index}) for index in range(n)], ["part"])
    graph.add_edge("part", "collect")
    graph.add_edge("collect", END)
    graph = graph.compile()

    async def run_once():
        result = await graph.ainvoke({"parts": []})
        assert result["total"] == n

    return run_once


def run_crowd(n):
    graph = chain(10, count_slowly)

    async def run_once():
        results = await asyncio.gather(*[graph.ainvoke({"count": 0}) for _ in range(n)])
        assert all(result["count"] == 10 for result in results)

    return run_once


def run_messages(n, checkpointer=None):
    async def add(_state):
        return {"messages": ["m" * 1024]}

    graph = StateGraph(Messages)
    graph.add_node("add", add)
    graph.add_edge(START, "add")
    graph.add_conditional_edges("add", lambda state: "add" if len(state["messages"]) < n else END, ["add", END])
    graph = graph.compile(checkpointer=checkpointer)

    async def run_once():
        result = await graph.ainvoke({"messages": []}, **options(n, checkpointer))
        assert len(result["messages"]) == n

    return run_once


async def sqlite():
    import aiosqlite
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    connection = await aiosqlite.connect("langgraph.db")
    saver = AsyncSqliteSaver(connection)
    await saver.setup()
    await connection.execute("pragma synchronous=NORMAL")
    return saver


async def postgres():
    import psycopg
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from psycopg_pool import AsyncConnectionPool

    settings = {"autocommit": True, "prepare_threshold": 0, "row_factory": psycopg.rows.dict_row}
    pool = AsyncConnectionPool(os.environ["PEER_DATABASE"], open=False, kwargs=settings)
    await pool.open()
    saver = AsyncPostgresSaver(pool)
    await saver.setup()
    return saver


async def stored(run, n, saver):
    return run(n, await saver())


turns.serve(
    version("langgraph"),
    {
        "W1": run_chain,
        "W2": run_cycle,
        "W3": lambda n: run_fan(n, 0),
        "W4": lambda n: run_fan(n, 0.05),
        "W5": run_crowd,
        "W6-sqlite": lambda n: stored(run_chain, n, sqlite),
        "W6-postgres": lambda n: stored(run_chain, n, postgres),
        "W8": run_messages,
        "W8-sqlite": lambda n: stored(run_messages, n, sqlite),
    },
    lambda: run_chain(1)(),
)
