"""DBOS on the workloads of `bench`: see bench/peers/README.md. It stores every step, always."""

import os
import sys
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
import turns
from dbos import DBOS


def launch(database):
    DBOS(config={
        "name": "bench", "system_database_url": database, "log_level": "ERROR", "run_admin_server": False,
    })
    DBOS.launch()


@DBOS.step()
async def count_step(count: int) -> int:
    return count + 1


@DBOS.workflow()
async def chain(n: int) -> int:
    count = 0
    for _ in range(n):
        count = await count_step(count)
    return count


@DBOS.step()
async def add_message() -> str:
    return "m" * 1024


@DBOS.workflow()
async def messages(n: int) -> int:
    added = []
    for _ in range(n):
        added.append(await add_message())
    return len(added)


def run(workflow, n, database):
    launch(database)

    async def run_once():
        assert await workflow(n) == n

    return run_once


async def start_cold():
    print(await run(chain, 1, SQLITE)() or "done")
    sys.stdout.flush()
    # Its threads would be waited for.
    os._exit(0)


SQLITE = "sqlite:///dbos.sqlite"

turns.serve(
    version("dbos"),
    {
        "W6-sqlite": lambda n: run(chain, n, SQLITE),
        "W6-postgres": lambda n: run(chain, n, os.environ["PEER_DATABASE"].replace("postgres://", "postgresql://")),
        "W8-sqlite": lambda n: run(messages, n, SQLITE),
    },
    start_cold,
)
