"""``/healthz``: the process answers. ``/readyz``: it can do its work (database, migrations, Valkey, clock)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import redis
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from core import clock
from core.valkey import valkey

CLOCK_DRIFT_SECONDS = 1.0


def _database() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        theirs: datetime = cursor.fetchone()[0]
    drift = abs((clock.now() - theirs).total_seconds())
    return "ok" if drift <= CLOCK_DRIFT_SECONDS else f"our clock differs from PostgreSQL's by {drift:.1f} s"


def _migrations() -> str:
    executor = MigrationExecutor(connection)
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return "ok" if not missing else f"{len(missing)} migrations are not applied"


def _valkey() -> str:
    return "ok" if valkey().ping() else "no answer"


CHECKS: dict[str, Callable[[], str]] = {"database": _database, "migrations": _migrations, "valkey": _valkey}


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    found: dict[str, str] = {}
    for name, check in CHECKS.items():
        try:
            found[name] = check()
        except (DatabaseError, redis.RedisError) as error:
            found[name] = f"unreachable ({type(error).__name__})"
    ready = all(answer == "ok" for answer in found.values())
    return JsonResponse({"ready": ready, "checks": found}, status=200 if ready else 503)
