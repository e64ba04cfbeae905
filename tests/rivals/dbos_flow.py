"""One process of DBOS: `dbos_flow.py RECORDER RUN start|resume`, with its database in the current folder."""

import sys

from dbos import DBOS, SetWorkflowID

from post import post_step


@DBOS.step()
def send(recorder: str, run: str, step: int) -> int:
    return post_step(recorder, run, step)


@DBOS.workflow()
def five(recorder: str, run: str) -> int:
    for step in range(1, 6):
        send(recorder, run, step)
    return 5


def main(recorder, run, how):
    DBOS(config={"name": "five", "system_database_url": "sqlite:///dbos.sqlite", "log_level": "ERROR"})
    # Launching recovers the workflows that the last process left.
    DBOS.launch()
    if how == "start":
        with SetWorkflowID(run):
            handle = DBOS.start_workflow(five, recorder, run)
    else:
        handle = DBOS.retrieve_workflow(run)
    handle.get_result()
    DBOS.destroy()


main(*sys.argv[1:])
