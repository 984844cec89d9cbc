"""Who uses which GPU on this host: a second lock behind the platform's, for the moment in which one job follows another."""

import threading
from collections.abc import Callable

_RECHECK_S = 0.5


class GpuLeases:
    """All or nothing per holder; an attempt or a benchmark waits until its GPUs are free."""

    def __init__(self, changed: Callable[[frozenset[str]], None]) -> None:
        """`changed(uuids)` hears which GPUs are in use after each change."""
        self._condition = threading.Condition()
        self._holders: dict[str, str] = {}
        self._changed = changed

    def acquire(self, holder: str, uuids: tuple[str, ...], cancelled: Callable[[], bool]) -> bool:
        """Wait for the GPUs; false when cancelled. Taking again what one has is fine."""
        with self._condition:
            while any(self._holders.get(uuid, holder) != holder for uuid in uuids):
                if cancelled():
                    return False
                self._condition.wait(_RECHECK_S)
            for uuid in uuids:
                self._holders[uuid] = holder
            self._changed(frozenset(self._holders))
        return True

    def release(self, holder: str) -> None:
        with self._condition:
            self._holders = {uuid: other for uuid, other in self._holders.items() if other != holder}
            self._changed(frozenset(self._holders))
            self._condition.notify_all()
