"""Several at once, on real connections. For tests that take ``committed_db``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from django.db import connection, connections


def together(count: int, verb: Callable[[int], Any]) -> list[Any]:
    """Run ``verb(0) … verb(count - 1)`` in threads that start at the same moment; their results, errors included."""
    barrier = threading.Barrier(count)
    results: list[Any] = [None] * count

    def work(number: int) -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")  # connected before the race begins
            barrier.wait(timeout=60)
            results[number] = verb(number)
        except Exception as error:
            results[number] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results
