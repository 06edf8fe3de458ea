"""Durable steps through LangGraph's SqliteSaver. Run by its own environment, in a directory of its own.

python benchmarks/_peers_steps_langgraph.py STEPS AT_ONCE: so many threads at once, which share the steps
"""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph


class State(TypedDict):
    """What a step gives on: about 300 bytes."""

    number: int
    wanted: int
    text: str


def step(state: State) -> State:
    """An effect that takes no time."""
    return {"number": state["number"] + 1, "wanted": state["wanted"], "text": "x" * 250}


def following(state: State) -> str:
    """The same node again until all steps are done."""
    return "step" if state["number"] < state["wanted"] else END


def main(steps: int, at_once: int) -> None:
    """Print the seconds for all steps; each one's checkpoint is written before the next."""
    each = steps // at_once
    graph = StateGraph(State)
    graph.add_node("step", step)
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", following)
    with SqliteSaver.from_conn_string("steps.sqlite") as saver:
        app = graph.compile(checkpointer=saver)

        def run(thread: int) -> int:
            config = {"configurable": {"thread_id": str(thread)}, "recursion_limit": each + 10}
            begun: State = {"number": 0, "wanted": each, "text": ""}
            return int(app.invoke(begun, config, durability="sync")["number"])

        began = time.perf_counter()
        with ThreadPoolExecutor(at_once) as threads:
            done = sum(threads.map(run, range(at_once)))
        seconds = time.perf_counter() - began
    print(json.dumps({"steps": done, "seconds": seconds}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
