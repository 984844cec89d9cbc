"""Becoming a machine, and how a request is refused."""

from dataclasses import dataclass
from typing import ClassVar

from agent_protocol.fields import (
    AnyObject,
    Boolean,
    Message,
    Nullable,
    Number,
    Text,
    UuidText,
    integer,
    nested,
    optional_integer,
    optional_text,
    text,
    wire,
)
from agent_protocol.messages.hardware import Host
from agent_protocol.version import PROTOCOL

BOOT_ID_LENGTH = 64
# 256 random bits in base64url without padding.
CREDENTIAL_PATTERN = r"gpxa_[A-Za-z0-9_-]{43}"


@dataclass(frozen=True, kw_only=True)
class EnrolRequest(Message):
    """POST /agent/v1/enrol: the only request without a credential.

    The agent makes its own credential and repeats it with the same `idempotency_key` until it has heard an answer, so
    a lost reply neither makes a second machine nor leaves one that nobody can speak for.
    """

    protocol: int = integer(PROTOCOL, PROTOCOL)
    token: str = text(256, min_length=1)
    idempotency_key: str = wire(UuidText())
    credential: str = text(64, pattern=CREDENTIAL_PATTERN)
    boot_id: str = text(BOOT_ID_LENGTH, min_length=1)
    agent_version: str = text(32, min_length=1)
    simulated: bool = wire(Boolean())
    host: Host = nested(Host)


@dataclass(frozen=True, kw_only=True)
class EnrolReply(Message):
    STRAY_FIELDS_IGNORED: ClassVar[bool] = True

    machine_id: str = wire(UuidText())
    server_time: str = text(40, min_length=1)
    sync_after_s: float = wire(Number(0, 3600))


@dataclass(frozen=True, kw_only=True)
class CredentialRequest(Message):
    """POST /agent/v1/credential, spoken with the present credential: this machine will use another one.

    Repeated with the same secret until it is answered. The present one works until a sync has come with the new one.
    """

    credential: str = text(64, pattern=CREDENTIAL_PATTERN)


@dataclass(frozen=True, kw_only=True)
class CredentialReply(Message):
    STRAY_FIELDS_IGNORED: ClassVar[bool] = True

    machine_id: str = wire(UuidText())
    server_time: str = text(40, min_length=1)


@dataclass(frozen=True, kw_only=True)
class RefusalReply(Message):
    """Body of every 4xx and 5xx. `retry_after_s` comes with slow_down, `next_offset` with a log conflict."""

    STRAY_FIELDS_IGNORED: ClassVar[bool] = True

    code: str = text(64, min_length=1)
    message: str = wire(Text(2000, multiline=True))
    # Texts or lists of texts per field, as the platform's one error shape has them; the agent only logs the names.
    fields: dict[str, object] | None = wire(Nullable(AnyObject()))
    request_id: str | None = optional_text(128)
    retry_after_s: float | None = wire(Nullable(Number(0, 86_400)))
    next_offset: int | None = optional_integer()
