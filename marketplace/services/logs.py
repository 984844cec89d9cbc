from __future__ import annotations

import hmac
from datetime import datetime
from uuid import UUID

from django.db import transaction

from agent_protocol.messages.logs import LogChunk as LogMessage
from core.errors import Conflict, NotFound
from core.ids import secret_hash
from marketplace.logtext import LOG_LIMIT_BYTES
from marketplace.models import Attempt, LogChunk
from marketplace.services.fencing import StaleToken
from providers.models import Machine


class LogOffset(Conflict):
    """The chunk does not begin where the log ends; ``next_offset`` is where it does."""

    code = "log_offset"

    def __init__(self, next_offset: int) -> None:
        super().__init__(
            "The chunk does not continue the log.",
            fields={"offset": f"Found another; the log goes on at {next_offset}."},
        )
        self.next_offset = next_offset


def log_append(*, machine: Machine, attempt_id: UUID, chunk: LogMessage, now: datetime) -> int:
    """Append output bytes at their offset; returns the next offset (bytes).

    Beyond 16 MiB bytes are counted but not kept. Raises NotFound, StaleToken, or LogOffset (a gap or an overlap).
    """
    attempt = Attempt.objects.filter(pk=attempt_id, machine_id=machine.pk).first()
    if attempt is None:
        raise NotFound("This machine has no such attempt.")
    if not hmac.compare_digest(secret_hash(chunk.token), bytes(attempt.token_hash)):
        raise StaleToken("The token is not this attempt's.", fields={"token": "Found another; nothing was kept."})
    content = chunk.content()
    after = chunk.offset + len(content)
    kept = content[: max(0, LOG_LIMIT_BYTES - chunk.offset)]
    with transaction.atomic():
        # One conditional UPDATE decides who writes at this offset; twins and gaps find another number.
        changes = {"log_bytes": after} | ({"log_final": True} if chunk.final else {})
        if len(kept) < len(content):
            changes["log_dropped"] = True
        moved = Attempt.objects.filter(pk=attempt.pk, log_bytes=chunk.offset, log_final=False).update(**changes)
        if not moved:
            have = Attempt.objects.values_list("log_bytes", flat=True).get(pk=attempt.pk)
            raise LogOffset(have)
        if kept:
            LogChunk.objects.create(attempt_id=attempt.pk, offset=chunk.offset, received_at=now, data=kept)
    return after
