#!/usr/bin/env python3
"""What a step costs in other engines: two nodes that answer each other, as in the figures `step` and `durable`.

usage: steps.py [STEPS]   (`make bench-compare` installs the packages and runs it beside rondo's own figures)

Each node returns the same text as rondo's scripted model and appends it to a history, so that every step has a prompt,
an answer and a checkpoint. Steps are timed in windows of a hundred; the median window counts, the first is left out.
"""

import operator
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from importlib.metadata import version
from typing import Annotated, TypedDict

BODY = (
    "The tide leaves the pool twice a day, and what lives in it has learnt to wait. Limpets clamp down, anemones fold "
    "in, and the crab goes under the weed. When the water comes back the pool is a garden again within minutes, and "
    "nobody who passes at low tide would guess how much of it was there all along, shut tight and wet."
)
ANSWER = f"---\nstatus: done\n---\n\n{BODY}"
WINDOW = 100


class Windows:
    """Times of windows of steps."""

    def __init__(self):
        self.steps, self.last, self.times = 0, time.perf_counter(), []

    def step(self):
        self.steps += 1
        if self.steps % WINDOW == 0:
            now = time.perf_counter()
            self.times.append((now - self.last) / WINDOW)
            self.last = now

    def median_us(self):
        return statistics.median(self.times[1:] or self.times) * 1e6


def langgraph(steps, checkpointer):
    from langgraph.graph import END, START, StateGraph

    class State(TypedDict):
        said: Annotated[list, operator.add]
        count: int

    windows = Windows()

    def node(state):
        windows.step()
        prompt = f"Go on with this: {state['said'][-1] if state['said'] else 'Begin.'}"
        assert prompt
        return {"said": [ANSWER], "count": state["count"] + 1}

    def following(other):
        return lambda state: END if state["count"] >= steps else other

    graph = StateGraph(State)
    graph.add_node("a", node)
    graph.add_node("b", node)
    graph.add_edge(START, "a")
    graph.add_conditional_edges("a", following("b"), ["b", END])
    graph.add_conditional_edges("b", following("a"), ["a", END])
    config = {"recursion_limit": steps + 10, "configurable": {"thread_id": "1"}}
    # Each checkpoint is written before the next step, as rondo's is.
    durability = {"durability": "sync"} if checkpointer else {}
    graph.compile(checkpointer=checkpointer).invoke({"said": [], "count": 0}, config, **durability)
    return windows.median_us()


def dbos(steps, folder):
    os.environ["DBOS__APPVERSION"] = "bench"
    from dbos import DBOS, DBOSConfig

    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": f"sqlite:///{folder}/dbos.sqlite",
        "log_level": "ERROR",
        "run_admin_server": False,
    }
    DBOS(config=config)
    windows = Windows()

    @DBOS.step()
    def answer(prompt):
        windows.step()
        return ANSWER

    @DBOS.workflow()
    def run():
        said = "Begin."
        for _ in range(steps):
            said = answer(f"Go on with this: {said}")

    DBOS.launch()
    run()
    DBOS.destroy()
    return windows.median_us()


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.checkpoint.sqlite import SqliteSaver

    graph = f"LangGraph {version('langgraph')}"
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(f"{folder}/graph.sqlite", check_same_thread=False)
        for name, measure in [
            (f"{graph}, no checkpointer", lambda: langgraph(steps, None)),
            (f"{graph}, InMemorySaver", lambda: langgraph(steps, InMemorySaver())),
            (f"{graph}, SqliteSaver", lambda: langgraph(steps, SqliteSaver(connection))),
            (f"DBOS {version('dbos')}, SQLite", lambda: dbos(steps, folder)),
        ]:
            print(f"{name:<58} {measure():>11.1f} us   {steps} steps", flush=True)


if __name__ == "__main__":
    main()
