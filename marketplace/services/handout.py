"""Handing out what a job keeps sealed: once for each attempt, to the boot that it was placed on."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import structlog
from cryptography.fernet import InvalidToken
from django.db import transaction

from agent_protocol.messages import SECRETS_GONE, SECRETS_OTHER_BOOT
from core.errors import Conflict
from marketplace.jobsecrets import JobSecrets, job_unseal
from marketplace.models import Attempt
from marketplace.services.fencing import attempt_fence, attempt_of, evidence_keep
from marketplace.states import ATTEMPT_ORDER
from providers.models import Machine

log = structlog.get_logger(__name__)


class SecretsOtherBoot(Conflict):
    """The machine has restarted since the attempt was placed on it, or somebody else speaks for it."""

    code = SECRETS_OTHER_BOOT


class SecretsGone(Conflict):
    """They were handed out before, or are not to be had any more: the attempt has started, or its job has ended."""

    code = SECRETS_GONE


def attempt_secrets_collect(
    *, machine: Machine, attempt_id: UUID, token: str, boot_id: str, now: datetime
) -> JobSecrets:
    """The secrets of an attempt that has not started. That they are gone from now on is committed before they are returned,
    so an answer that is lost is lost: the attempt ends, and the next one has a token of its own.

    Raises NotFound, StaleToken, SecretsOtherBoot (both kept as evidence) or SecretsGone. Not to be called in a transaction.
    """
    attempt = attempt_of(machine=machine, attempt_id=attempt_id)
    asked = {"secrets": "asked for", "boot_id": boot_id}
    attempt_fence(attempt=attempt, machine=machine, token=token, report=asked, now=now)
    known = Machine.objects.values_list("boot_id", flat=True).get(pk=machine.pk)
    if boot_id != known or attempt.boot_id not in ("", boot_id):
        evidence_keep(attempt=attempt, machine=machine, code=SECRETS_OTHER_BOOT, report=asked, now=now)
        raise SecretsOtherBoot("The attempt was placed on another boot of this machine.")
    with transaction.atomic(durable=True):
        locked = Attempt.objects.select_for_update(of=("self",)).select_related("job").get(pk=attempt.pk)
        sealed = locked.job.secrets
        started = ATTEMPT_ORDER[locked.status] >= ATTEMPT_ORDER["running"]
        if sealed is None or started or locked.secrets_sent_at is not None or locked.stop_requested_at is not None:
            raise SecretsGone("The secrets of this attempt are gone.")
        try:
            secrets = job_unseal(bytes(sealed))
        except InvalidToken:
            log.error("secrets_not_readable", attempt=str(locked.pk))
            raise SecretsGone("The secrets of this attempt are gone.") from None
        Attempt.objects.filter(pk=locked.pk).update(secrets_sent_at=now)
    return secrets
