"""What an attempt keeps sealed on the platform, and how its machine collects it: once, and under the boot it was placed on."""

from dataclasses import dataclass
from typing import ClassVar

from agent_protocol.errors import ProtocolError
from agent_protocol.fields import MapOf, Message, Nested, Nullable, Text, secret_text, text, wire
from agent_protocol.logins import PASSWORD_LENGTH, USERNAME_ALLOWED, USERNAME_LENGTH, is_username
from agent_protocol.messages.enrolment import BOOT_ID_LENGTH
from agent_protocol.messages.plan import (
    ENVIRONMENT_KEY,
    IMAGE_LENGTH,
    MAX_ARGUMENT_LENGTH,
    MAX_ENVIRONMENT,
    TOKEN_LENGTH,
)

# Why they are refused (409) for good: to another boot than the attempt's, or because they were handed out before.
SECRETS_OTHER_BOOT = "other_boot"
SECRETS_GONE = "secrets_gone"


@dataclass(frozen=True, kw_only=True)
class RegistryLogin(Message):
    """A customer's login at the registry of a private image. It is for the pull alone, and for no other registry."""

    STRAY_FIELDS_IGNORED: ClassVar[bool] = True

    registry: str = text(IMAGE_LENGTH, min_length=1)
    username: str = secret_text(USERNAME_LENGTH)
    password: str = secret_text(PASSWORD_LENGTH)

    def check(self) -> None:
        if not is_username(self.username):
            raise ProtocolError("username", "something else", USERNAME_ALLOWED)


@dataclass(frozen=True, kw_only=True)
class SecretsRequest(Message):
    """POST /agent/v1/attempts/<attempt_id>/secrets. Answered once: whoever did not get the answer has lost them."""

    token: str = text(TOKEN_LENGTH, min_length=1)
    boot_id: str = text(BOOT_ID_LENGTH, min_length=1)


@dataclass(frozen=True, kw_only=True, repr=False)
class AttemptSecrets(Message):
    """`environment`: the secret part of the job's, to join the plan's. Kept in memory alone."""

    STRAY_FIELDS_IGNORED: ClassVar[bool] = True

    environment: dict[str, str] = wire(
        MapOf(Text(MAX_ARGUMENT_LENGTH, multiline=True), MAX_ENVIRONMENT, ENVIRONMENT_KEY)
    )
    registry_login: RegistryLogin | None = wire(Nullable(Nested(RegistryLogin)))
