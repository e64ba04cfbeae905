"""agno on the workloads of `bench`: see bench/peers/README.md. It stores a session when a run ends, not each step."""

import asyncio
import os
import sys
from importlib.metadata import version
from pathlib import Path

os.environ["AGNO_TELEMETRY"] = "false"
sys.path.insert(0, str(Path(__file__).parent.parent))
import turns
from agno.workflow import Loop, Parallel, Step, StepInput, StepOutput, Workflow


async def count_step(given: StepInput) -> StepOutput:
    return StepOutput(content=str(int(given.previous_step_content or 0) + 1))


async def count_slowly(given: StepInput) -> StepOutput:
    await asyncio.sleep(0.02)
    return await count_step(given)


def workflow(steps):
    return Workflow(name="bench", telemetry=False, steps=steps)


def chain(n, executor=count_step):
    return workflow([Step(name=f"n{index}", executor=executor) for index in range(n)])


def run_chain(n):
    steps = chain(n)

    async def run_once():
        result = await steps.arun(input="x")
        assert result.content == str(n), result.content

    return run_once


def run_cycle(n):
    """A loop of two steps, for n steps."""
    done = 0

    async def count_turn(_given: StepInput) -> StepOutput:
        nonlocal done
        done += 1
        return StepOutput(content="done")

    nodes = [Step(name="one", executor=count_turn), Step(name="other", executor=count_turn)]
    loop = workflow([Loop(name="loop", steps=nodes, max_iterations=n // 2, end_condition=lambda _: False)])

    async def run_once():
        nonlocal done
        done = 0
        await loop.arun(input="x")
        assert done == n, done

    return run_once


def run_fan(n, seconds):
    async def part(_given: StepInput) -> StepOutput:
        if seconds:
            await asyncio.sleep(seconds)
        return StepOutput(content="1")

    async def collect(_given: StepInput) -> StepOutput:
        return StepOutput(content="done")

    parts = Parallel(*[Step(name=f"part{index}", executor=part) for index in range(n)], name="parts")
    fan = workflow([Step(name="begin", executor=count_step), parts, Step(name="collect", executor=collect)])

    async def run_once():
        result = await fan.arun(input="x")
        assert result.content == "done"

    return run_once


def run_crowd(n):
    steps = chain(10, count_slowly)

    async def run_once():
        await asyncio.gather(*[steps.arun(input="x", session_id=str(index)) for index in range(n)])

    return run_once


turns.serve(
    version("agno"),
    {
        "W1": run_chain,
        "W2": run_cycle,
        "W3": lambda n: run_fan(n, 0),
        "W4": lambda n: run_fan(n, 0.05),
        "W5": run_crowd,
    },
    lambda: run_chain(1)(),
)
