"""What of ours exists on this host, and how much of it may.

A broken agent, or one that was taken over, must not fill the machine: each container holds a log and processes, each volume
disk space, each network an interface and one of the few address ranges that an engine has to give.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agent.guard import answers
from agent.guard.context import Context, Reply, Unanswered
from agent.guard.errors import Refused
from agent.guard.policy import Policy
from agent.guard.strict import json_read, json_write

# A GPU has one job at a time. Of an ended one something may still be there while the next begins, and as much again when the
# agent was replaced in between.
PER_GPU = 4
# Probes of the network rules and the benchmark's containers, which hold no GPU or share one with nothing.
SPARE = 8
# Where all GPUs are offered nobody tells the guard how many there are: the most that a machine may report
# (agent_protocol.messages.hardware.MAX_GPUS, whose module would be a fifth of the guard's memory).
MOST_GPUS = 32

_LISTS = {"containers": "/containers/json", "volumes": "/volumes", "networks": "/networks"}
_LOCKS = {kind: threading.Lock() for kind in _LISTS}


def most(policy: Policy) -> int:
    """How many containers, how many volumes and how many networks of ours there may be at once."""
    gpus = MOST_GPUS if policy.gpus is None else len(policy.gpus)
    return PER_GPU * gpus + SPARE


def listed(context: Context, kind: str) -> Reply:
    """The answer to a list: what is ours, of the labels that were asked for."""
    labels = answers.label_filters(json_read(context.query.get("filters", "{}").encode()))
    return Reply(json_write(_list(context, kind, labels)))


@contextmanager
def room(context: Context, kind: str, name: str) -> Iterator[None]:
    """While one more is created. What bears this name already needs none. Raises Refused."""
    with _LOCKS[kind]:
        names = {answers.name_of(each) for each in _rows(kind, _list(context, kind, answers.label_filters({})))}
        allowed = most(context.policy)
        if len(names - {name}) >= allowed:
            raise Refused(kind, str(len(names)), f"at most {allowed} at once on this machine")
        yield


def _list(context: Context, kind: str, labels: list[str]) -> Any:
    query = {"filters": json_write({"label": labels}).decode()}
    answer = context.ask("GET", _LISTS[kind], query=query | ({"all": "1"} if kind == "containers" else {}))
    if not answer.good:
        raise Unanswered(answer)
    if kind == "containers":
        return answers.containers(answer.json())
    found = answers.owned(_rows(kind, answer.json()))
    return {"Volumes": found} if kind == "volumes" else found


def _rows(kind: str, value: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (value.get("Volumes") if kind == "volumes" else value) or []
    return rows
