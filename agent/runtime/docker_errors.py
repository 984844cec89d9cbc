"""What an engine's refusals mean. Its own words stay here: people see reason codes."""

import re
from collections.abc import Callable
from typing import Any

import requests
from docker.errors import APIError, DockerException, ImageNotFound

from agent.runtime.base import EngineUnavailable, ImageGone, RuntimeRefused

# What an image or an order says of itself; no other machine could run it either.
_GUARD_ON_IMAGE = ("guard: image", "guard: env", "guard: cmd")
_DISK_FULL = ("no space left on device",)
_GPU_FAILURES = (
    "could not select device driver",
    "nvidia-container-cli",
    "nvidia-container-runtime",
    "unknown device",
    "cdi device",
    "unresolvable cdi",
)
_COMMAND_MISSING = ("executable file not found", "no such file or directory", "permission denied: unknown")
# What a registry said, or the engine of it. The words differ between engines, their image stores, and registries.
_STATUS = re.compile(
    r"(?:http|status(?: code)?|request to \S+:)[ :]*([45][0-9]{2})\b|\b([45][0-9]{2}) (?:too many|unauthorized|forbidden)"
)
_RATE_LIMITED = ("toomanyrequests", "too many requests", "rate limit", "ratelimit", "rate exceeded")
_UNAUTHORIZED = ("unauthorized", "denied", "authentication required", "no basic auth", "incorrect username or password")
_MISSING = ("not found", "manifest unknown", "name unknown", "no such image", "repository does not exist")
# It is there, but not for this kind of machine, or not an image.
_UNUSABLE = (
    "no matching manifest",
    "cannot be used on this platform",
    "is no longer supported",
    "unsupported media type",
)


def pull_refused(text: str, status: int | None = None, *, repository: str = "") -> RuntimeRefused:
    """Why a pull failed. A registry says "denied" for what is missing as well as for what is private: both are the
    customer's to mend, so the order here only chooses the hint. What nobody explains is the registry's outage.

    `repository`: its name and tag, which are the customer's words, are not taken for the registry's.
    """
    words = _without(text.lower(), repository.removeprefix("library/"))
    if _has(words, _DISK_FULL):
        return RuntimeRefused("host_disk_full", "pull")
    match = _STATUS.search(words)
    said = int(match[1] or match[2]) if match else None
    if 429 in (said, status) or _has(words, _RATE_LIMITED):
        return RuntimeRefused("registry_rate_limited")
    # A folder of the engine's that it may not read is no registry's word.
    if status == 401 or said in (401, 403) or _has(words.replace("permission denied", ""), _UNAUTHORIZED):
        return RuntimeRefused("image_unauthorized")
    if 404 in (said, status) or _has(words, _MISSING):
        return RuntimeRefused("image_missing")
    if _has(words, _UNUSABLE):
        return RuntimeRefused("image_missing", "unusable")
    return RuntimeRefused("registry_unavailable")


def _without(words: str, repository: str) -> str:
    return re.sub(rf"{re.escape(repository)}(?:[:@/]\S*)?", "", words) if repository else words


def create_refused(error: APIError) -> RuntimeRefused:
    """Why a container could not be created or started."""
    words = str(error.explanation or error).lower()
    if isinstance(error, ImageNotFound):
        return ImageGone()
    if error.status_code == 403 and words.startswith(_GUARD_ON_IMAGE):
        return RuntimeRefused("image_missing", "unusable")
    if _has(words, _DISK_FULL):
        return RuntimeRefused("host_disk_full", "create")
    if _has(words, _GPU_FAILURES):
        return RuntimeRefused("device_injection_failed")
    if _has(words, _COMMAND_MISSING) and ("exec" in words or "runc" in words or "oci runtime" in words):
        return RuntimeRefused("nonzero_exit", "command_not_found")
    return RuntimeRefused("container_create_failed")


def _has(words: str, any_of: tuple[str, ...]) -> bool:
    return any(each in words for each in any_of)


def called(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """An engine call of which every failure means "not now"."""
    try:
        return call(*arguments, **options)
    except (requests.RequestException, DockerException) as error:
        raise EngineUnavailable(type(error).__name__) from None
