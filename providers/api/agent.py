"""The agents' door: enrolment. A plain view, as it must read exactly what agent_protocol says and nothing else."""

from __future__ import annotations

from typing import TypeVar
from uuid import UUID

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from agent_protocol.errors import ProtocolError
from agent_protocol.fields import MAX_BODY_BYTES, Message, json_read
from agent_protocol.messages import EnrolReply, EnrolRequest
from core import clock
from core.api.errors import error_response
from core.errors import DomainError, Invalid, SlowDown
from core.ids import secret_hash
from core.limits import limit_take
from providers import services

ENROLMENTS_PER_MINUTE = 60
"""Per address: a data centre enrols a rack from behind one; a token has 256 bits, so guessing is no concern."""
FIRST_SYNC_AFTER_S = 1.0

Body = TypeVar("Body", bound=Message)


def message_read(request: HttpRequest, message: type[Body]) -> Body:
    """The protocol message in the request's body. Raises Invalid naming the field, what was found and what is allowed."""
    try:
        return message.parse(json_read(request.body))
    except ProtocolError as error:
        raise Invalid.field(error.field or "body", found=error.found, allowed=error.allowed) from error
    except RequestDataTooBig as error:
        raise Invalid.field("body", found="a longer one", allowed=f"at most {MAX_BODY_BYTES} bytes") from error


def refusal(request: HttpRequest, error: DomainError) -> JsonResponse:
    """A named error in the one shape; a ``slow_down`` says when to come back, in the body and as Retry-After."""
    response = error_response(request, error)
    if isinstance(error, SlowDown):
        response = JsonResponse(
            {
                "code": error.code,
                "message": error.message,
                "fields": {},
                "request_id": getattr(request, "request_id", None),
                "retry_after_s": error.retry_after_s,
            },
            status=error.status,
        )
        response["Retry-After"] = str(error.retry_after_s)
    return response


@csrf_exempt
@require_POST
def enrol(request: HttpRequest) -> HttpResponse:
    """POST /agent/v1/enrol: 201 for a new machine, 200 for one that this very request had made before."""
    now = clock.now()
    try:
        limit_take(f"enrol:{request.META.get('REMOTE_ADDR', '')}", limit=ENROLMENTS_PER_MINUTE, seconds=60)
        wanted = message_read(request, EnrolRequest)
        enrolled = services.machine_enrol(
            token=wanted.token,
            key=UUID(wanted.idempotency_key),
            credential_hash=secret_hash(wanted.credential),
            boot_id=wanted.boot_id,
            agent_version=wanted.agent_version,
            simulated=wanted.simulated,
            host=wanted.host,
            now=now,
        )
    except DomainError as error:
        return refusal(request, error)
    reply = EnrolReply(
        machine_id=str(enrolled.machine.pk), server_time=now.isoformat(), sync_after_s=FIRST_SYNC_AFTER_S
    )
    return JsonResponse(reply.to_dict(), status=201 if enrolled.created else 200)
