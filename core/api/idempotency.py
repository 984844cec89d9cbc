"""The DRF door of core.idempotency."""

from __future__ import annotations

import json
from collections.abc import Callable

from rest_framework.request import Request
from rest_framework.response import Response

from core import clock
from core.idempotency import Answer, answer_once


def respond_once(request: Request, *, route: str, make: Callable[[], Answer]) -> Response:
    """Answer a POST through its ``Idempotency-Key`` header; a replay carries ``Idempotency-Replayed: true``."""
    (status, body), replayed = answer_once(
        principal=f"user:{request.user.pk}",
        route=route,
        key=request.headers.get("Idempotency-Key"),
        body=json.dumps(request.data, sort_keys=True, default=str).encode(),
        now=clock.now(),
        make=make,
    )
    response = Response(body, status=status)
    if replayed:
        response["Idempotency-Replayed"] = "true"
    return response
