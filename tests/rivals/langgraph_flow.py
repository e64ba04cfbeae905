"""One process of LangGraph: `langgraph_flow.py RECORDER RUN start|resume`, with its database in the current folder."""

import sys
from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from post import post_step


class State(TypedDict):
    recorder: str
    run: str
    step: int


def node_of(step):
    return lambda state: {"step": post_step(state["recorder"], state["run"], step)}


def build(saver):
    graph = StateGraph(State)
    for step in range(1, 6):
        graph.add_node("send-%d" % step, node_of(step))
        graph.add_edge(START if step == 1 else "send-%d" % (step - 1), "send-%d" % step)
    graph.add_edge("send-5", END)
    return graph.compile(checkpointer=saver)


def main(recorder, run, how):
    with SqliteSaver.from_conn_string("langgraph.sqlite") as saver:
        graph = build(saver)
        config = {"configurable": {"thread_id": run}}
        # Once in any case: `next` leaves out a step whose result is stored, even if no checkpoint follows it yet.
        inputs = {"recorder": recorder, "run": run, "step": 0} if how == "start" else None
        graph.invoke(inputs, config, durability="sync")
        while graph.get_state(config).next:
            graph.invoke(None, config, durability="sync")


main(*sys.argv[1:])
