"""What a node can be told to do wrong, method by method."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from enum import StrEnum

ANY_METHOD = "*"
TIMES_MAX = 100_000


class FaultKind(StrEnum):
    DROP_REQUEST = "drop_request"  # the connection closes before anything was done
    DROP_RESPONSE = "drop_response"  # it was done, the answer is lost
    HTTP_500 = "http_500"  # nothing was done
    HTTP_503 = "http_503"  # nothing was done
    HTTP_503_AFTER = "http_503_after"  # it was done, a proxy says it was not
    HTTP_429 = "http_429"  # nothing was done, too many requests
    GARBAGE = "garbage"  # it was done, the answer is no JSON
    NODE_BEHIND = "node_behind"  # nothing was done, JSON-RPC error -32005
    LOSE_TRANSACTION = "lose_transaction"  # accepted, a signature is given, but it never leaves the node
    SLOW = "slow"  # it was done, the answer comes after `seconds`


DONE_NOTHING = {
    FaultKind.DROP_REQUEST,
    FaultKind.HTTP_500,
    FaultKind.HTTP_503,
    FaultKind.HTTP_429,
    FaultKind.NODE_BEHIND,
}


@dataclass(frozen=True, slots=True)
class Fault:
    kind: FaultKind
    seconds: float = 0.0


class FaultPlan:
    """Faults waiting for their call, in order. A method's own come before those for any method.

    ``met`` counts those that came true.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Fault]] = {}
        self.met: Counter[str] = Counter()

    def add(self, method: str, fault: Fault, times: int) -> None:
        self._waiting.setdefault(method, deque()).extend([fault] * times)

    def clear(self) -> None:
        self._waiting.clear()

    def take(self, method: str) -> Fault | None:
        for name in (method, ANY_METHOD):
            if self._waiting.get(name):
                fault = self._waiting[name].popleft()
                self.met[f"{method} {fault.kind}"] += 1
                return fault
        return None
