"""One error shape for every API: ``{code, message, fields, request_id}``."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, JsonResponse
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import exception_handler as drf_exception_handler

from core.errors import DomainError


def error_body(request: Any, *, code: str, message: str, fields: dict[str, list[str]] | None = None) -> dict[str, Any]:
    return {
        "code": code,
        "message": message,
        "fields": fields or {},
        "request_id": getattr(getattr(request, "_request", request), "request_id", None),
    }


def error_response(request: HttpRequest, error: DomainError) -> JsonResponse:
    """A named error as the answer of a plain (non-DRF) view."""
    body = error_body(request, code=error.code, message=error.message, fields=error.fields)
    return JsonResponse(body, status=error.status)


def _flatten(detail: Any, prefix: str = "") -> dict[str, list[str]]:
    if isinstance(detail, dict):
        found: dict[str, list[str]] = {}
        for name, inner in detail.items():
            found |= _flatten(inner, f"{prefix}.{name}" if prefix else str(name))
        return found
    if isinstance(detail, list) and any(isinstance(item, dict | list) for item in detail):
        found = {}
        for index, inner in enumerate(detail):
            found |= _flatten(inner, f"{prefix}[{index}]")
        return found
    texts = detail if isinstance(detail, list) else [detail]
    return {prefix or "request": [str(text) for text in texts]}


def exception_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's EXCEPTION_HANDLER: named errors and DRF's own, in the one shape. Anything else stays a 500."""
    request = context.get("request")
    if isinstance(error, DomainError):
        return Response(
            error_body(request, code=error.code, message=error.message, fields=error.fields), status=error.status
        )
    response = drf_exception_handler(error, context)
    if response is None:
        return None
    if isinstance(error, exceptions.ValidationError):
        fields = _flatten(error.detail)
        message = "; ".join(f"{name}: {texts[0]}" for name, texts in fields.items())
        response.data = error_body(request, code="invalid", message=message, fields=fields)
    elif isinstance(error, Http404 | exceptions.NotFound):
        response.data = error_body(request, code="not_found", message="There is no such thing here.")
    elif isinstance(error, PermissionDenied):
        response.data = error_body(request, code="denied", message="This is not allowed.")
    else:
        code = getattr(error, "default_code", "refused")
        response.data = error_body(request, code=str(code), message=str(getattr(error, "detail", error)))
    return response
