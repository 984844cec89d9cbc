"""When to try again, and what threads wait for."""

import random
import threading

from agent.clock import boot_seconds

SPREAD = 0.2


def spread(seconds: float) -> float:
    """±20 %, so that a fleet started together does not knock together."""
    return seconds * random.uniform(1 - SPREAD, 1 + SPREAD)


class Backoff:
    """Growing waits: doubled from `first_s` up to `longest_s`, each cut at random to between half and all of it."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first = first_s
        self._longest = longest_s
        self._failures = 0

    def reset(self) -> None:
        self._failures = 0

    def next(self) -> float:
        wait = min(self._longest, self._first * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return wait * random.uniform(0.5, 1.0)


class Alarm:
    """An event that wakes one waiting thread, early when rung, for good once stopped."""

    def __init__(self, stop: threading.Event) -> None:
        self._condition = threading.Condition()
        self._rung = False
        self._stop = stop

    def ring(self) -> None:
        with self._condition:
            self._rung = True
            self._condition.notify_all()

    def wait(self, seconds: float) -> None:
        """Until rung, stopped (whoever stops rings too), or the time is over; consumes the ring."""
        deadline = boot_seconds() + seconds
        with self._condition:
            while not self._rung and not self._stop.is_set():
                left = deadline - boot_seconds()
                if left <= 0:
                    return
                self._condition.wait(left)
            self._rung = False
