"""What a customer may ask for. Pure: ``check`` returns a clean JobSpec or raises one Invalid naming every wrong field."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from uuid import UUID

from agent_protocol.images import ImageRefused, image_parse
from agent_protocol.logins import PASSWORD_ALLOWED, USERNAME_ALLOWED, is_password, is_username
from agent_protocol.messages.hardware import MAX_GPUS
from agent_protocol.messages.plan import (
    ENVIRONMENT_KEY,
    MAX_ARGUMENT_LENGTH,
    MAX_ARGUMENTS,
    MAX_ENVIRONMENT,
    MAX_TIME_LIMIT_S,
)
from core.errors import Invalid
from marketplace import outcomes, pricing

HOUR, DAY = 3600, 86_400
TIME_LIMIT_MIN_S, TIME_LIMIT_DEFAULT_S = 60, DAY
GRACE_MIN_S, GRACE_DEFAULT_S, GRACE_MAX_S = 5 * 60, 30 * 60, DAY
DISK_MIN_GB, DISK_DEFAULT_GB, DISK_MAX_GB = 1, 20, 10_000
TEXTS_MAX_BYTES = 256 * 1024
"""Command and environment together: a plan with several jobs must stay under the 1 MiB of one message."""
NAME_LENGTH = 80

_KEY = re.compile(ENVIRONMENT_KEY)
_SCRUBBED = re.compile(r"LD_.*|NVIDIA_.*|CUDA_VISIBLE_DEVICES")
"""Names that steer the loader or the GPU runtime: they would change which GPU a job sees."""


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """A job as asked for: on ``listing_id`` at the rate seen, or by criteria. Rates in micro-USDC per GPU-hour.

    The registry's user name and password (or token) are for a private ``image``: both or neither.
    """

    image: str
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    registry_username: str = field(default="", repr=False)
    registry_password: str = field(default="", repr=False)
    name: str = ""
    gpu_count: int = 1
    listing_id: UUID | None = None
    model_slug: str | None = None
    max_rate_micro: int | None = None
    min_reliability: Decimal | None = None
    region: str = ""
    country: str = ""
    disk_gb: int = DISK_DEFAULT_GB
    time_limit_s: int = TIME_LIMIT_DEFAULT_S
    disconnect_grace_s: int = GRACE_DEFAULT_S
    max_attempts: int = 1


def check(spec: JobSpec) -> JobSpec:
    """The spec with its image in full (registry, repository, tag or digest). Raises Invalid with a sentence per wrong field."""
    fields: dict[str, list[str]] = {}

    def attempt(verb: Callable[[], object]) -> None:
        try:
            verb()
        except Invalid as error:
            for name, sentences in error.fields.items():
                fields.setdefault(name, []).extend(sentences)

    attempt(lambda: _image(spec.image))
    attempt(lambda: _command(spec.command))
    attempt(lambda: _environment("environment", spec.environment))
    attempt(lambda: _environment("secrets", spec.secrets))
    attempt(lambda: _texts(spec))
    attempt(lambda: _login(spec.registry_username, spec.registry_password))
    attempt(lambda: _name(spec.name))
    attempt(lambda: _between("gpu_count", spec.gpu_count, 1, MAX_GPUS, "GPUs on one machine"))
    attempt(lambda: _between("disk_gb", spec.disk_gb, DISK_MIN_GB, DISK_MAX_GB, "GB"))
    attempt(lambda: _between("time_limit_s", spec.time_limit_s, TIME_LIMIT_MIN_S, MAX_TIME_LIMIT_S, "seconds"))
    attempt(lambda: _between("disconnect_grace_s", spec.disconnect_grace_s, GRACE_MIN_S, GRACE_MAX_S, "seconds"))
    attempt(lambda: _between("max_attempts", spec.max_attempts, 1, outcomes.ATTEMPTS_MAX, "attempts"))
    attempt(lambda: _wanted(spec))
    if fields:
        raise Invalid("; ".join(f"{name}: {texts[0]}" for name, texts in fields.items()), fields=fields)
    return replace(spec, image=_image(spec.image), country=spec.country.upper())


def _image(image: str) -> str:
    try:
        return image_parse(image.strip()).pull_reference
    except ImageRefused as refused:
        raise Invalid.field("image", found=image[:80], allowed=refused.allowed) from None


def _command(command: tuple[str, ...]) -> None:
    if len(command) > MAX_ARGUMENTS:
        raise Invalid.field("command", found=f"{len(command)} arguments", allowed=f"at most {MAX_ARGUMENTS}")
    for argument in command:
        _text("command", argument)


def _text(name: str, text: str) -> None:
    if len(text) > MAX_ARGUMENT_LENGTH:
        raise Invalid.field(name, found=f"{len(text)} characters", allowed=f"at most {MAX_ARGUMENT_LENGTH}")
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise Invalid.field(name, found="a NUL or half a character", allowed="text")


def _environment(name: str, values: Mapping[str, str]) -> None:
    if len(values) > MAX_ENVIRONMENT:
        raise Invalid.field(name, found=f"{len(values)} entries", allowed=f"at most {MAX_ENVIRONMENT}")
    for key, value in values.items():
        if not _KEY.fullmatch(key):
            raise Invalid.field(
                name, found=key[:40], allowed="names of letters, digits and _, not beginning with a digit"
            )
        if _SCRUBBED.fullmatch(key):
            raise Invalid.field(name, found=key, allowed="names other than LD_*, NVIDIA_* and CUDA_VISIBLE_DEVICES")
        _text(name, value)


def _texts(spec: JobSpec) -> None:
    both = sorted(set(spec.environment) & set(spec.secrets))
    if both:
        raise Invalid.field("secrets", found=both[0], allowed="names that are not in the environment too")
    texts = [*spec.command, *spec.environment, *spec.environment.values(), *spec.secrets, *spec.secrets.values()]
    size = sum(len(text.encode("utf-8", errors="replace")) for text in texts)
    if size > TEXTS_MAX_BYTES:
        allowed = f"at most {TEXTS_MAX_BYTES} bytes of command, environment and secrets together"
        raise Invalid.field("command", found=f"{size} bytes", allowed=allowed)


def _login(username: str, password: str) -> None:
    """Both or neither. What was found is never said: people paste one into the other's place."""
    if username and not password:
        raise Invalid.field("registry_password", found="", allowed="a password or token for this user name")
    if password and not username:
        raise Invalid.field("registry_username", found="", allowed="the user name of this password or token")
    if username and not is_username(username):
        raise Invalid.field("registry_username", found="…", allowed=USERNAME_ALLOWED)
    if password and not is_password(password):
        raise Invalid.field("registry_password", found="…", allowed=PASSWORD_ALLOWED)


def _name(name: str) -> None:
    if len(name) > NAME_LENGTH or not name.isprintable():
        raise Invalid.field("name", found=name[:40], allowed=f"at most {NAME_LENGTH} printable characters")


def _between(name: str, value: int, low: int, high: int, unit: str) -> None:
    if not low <= value <= high:
        raise Invalid.field(name, found=value, allowed=f"{low} to {high} {unit}")


def _wanted(spec: JobSpec) -> None:
    """Either a listing or criteria; always a price ceiling, as the balance is checked against it."""
    if spec.max_rate_micro is None:
        allowed = "the most you pay per GPU-hour (for a chosen listing: the rate you saw)"
        raise Invalid.field("max_rate", found="nothing", allowed=allowed)
    pricing.rate_check(spec.max_rate_micro, field="max_rate")
    if spec.min_reliability is not None and not 0 <= spec.min_reliability <= 100:
        raise Invalid.field("min_reliability", found=str(spec.min_reliability), allowed="0 to 100")
    if spec.listing_id is not None and (spec.model_slug or spec.region or spec.country or spec.min_reliability):
        raise Invalid.field("listing", found="a listing and criteria", allowed="one or the other")
