"""What the drivers in Python share: they run a workload once for each line that they read (README.md)."""

import asyncio
import inspect
import os
import sys
import time


def serve(version, workloads, cold):
    """`workloads`: functions of n that return an async function, by name. `cold`: the one step of a cold start."""
    name, *rest = sys.argv[1:]
    asyncio.run(cold() if name == "W7" else _answer_lines(version, workloads[name], int(rest[0])))


async def _answer_lines(version, prepare, n):
    run_once = prepare(n)
    if inspect.isawaitable(run_once):
        run_once = await run_once
    print(version, flush=True)
    for _ in iter(sys.stdin.readline, ""):
        since = time.perf_counter()
        await run_once()
        print(time.perf_counter() - since, flush=True)
    # Libraries may wait for threads of their own.
    sys.stdout.flush()
    os._exit(0)
