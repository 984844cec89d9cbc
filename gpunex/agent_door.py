"""What every endpoint for agents does first: who speaks (as a rule without SQL), is this the protocol, how is "no" said."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from agent_protocol.errors import ProtocolError
from agent_protocol.fields import MAX_BODY_BYTES, Message, json_read
from core.api.errors import error_body
from core.errors import DomainError, Invalid, Unauthorized
from core.ids import secret_hash
from gpunex import agent_sessions
from gpunex.agent_guard import replaced_note
from gpunex.agent_sessions import Session

Body = TypeVar("Body", bound=Message)


class TooLarge(DomainError):
    """A body above the protocol's 1 MiB (HTTP 413)."""

    code = "too_large"
    status = 413


def bearer_of(request: HttpRequest) -> str:
    """The credential that came with a request. Raises Unauthorized where there is none."""
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    if scheme != "Bearer" or not secret:
        raise Unauthorized("The header Authorization: Bearer <credential> is missing.", code="unknown_credential")
    return secret


def session_of(request: HttpRequest) -> Session:
    """The machine that speaks. Raises Unauthorized: ``revoked`` (the agent stops its jobs and exits),
    ``credential_replaced`` (another credential of this machine is in use) or unknown."""
    secret = bearer_of(request)
    try:
        return agent_sessions.find(secret)
    except Unauthorized as error:
        if error.code == "credential_replaced":
            replaced_note(secret_hash(secret))
        raise


def read(request: HttpRequest, kind: type[Body]) -> Body:
    """The body as a message. Raises Invalid naming the field, what was found and what is allowed."""
    try:
        return kind.parse(json_read(request.body))
    except RequestDataTooBig:
        raise TooLarge(f"The body is longer than {MAX_BODY_BYTES} bytes.") from None
    except ProtocolError as error:
        raise invalid(error) from None


def invalid(error: ProtocolError) -> Invalid:
    return Invalid.field(error.field or "body", found=error.found, allowed=error.allowed)


def refusal(request: HttpRequest, error: DomainError) -> JsonResponse:
    body: dict[str, Any] = error_body(request, code=error.code, message=error.message, fields=error.fields)
    for name in ("retry_after_s", "next_offset"):
        if hasattr(error, name):
            body[name] = getattr(error, name)
    return JsonResponse(body, status=error.status)


def agent_view(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """A POST-only view for agents: no CSRF (there is no cookie), named errors in the one shape."""

    @csrf_exempt
    @wraps(view)
    def wrapped(request: HttpRequest, *arguments: Any, **named: Any) -> HttpResponseBase:
        if request.method != "POST":
            refused = DomainError("POST only.", code="method_not_allowed")
            refused.status = 405
            return refusal(request, refused)
        try:
            return view(request, *arguments, **named)
        except DomainError as error:
            return refusal(request, error)

    return wrapped
