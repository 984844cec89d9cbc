"""What an engine's refusals mean. Its own words stay here: people see reason codes."""

from collections.abc import Callable
from typing import Any

import requests
from docker.errors import APIError, DockerException, ImageNotFound

from agent.runtime.base import EngineUnavailable, RuntimeRefused

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
_RATE_LIMITED = ("toomanyrequests", "too many requests", "rate limit")
_UNAUTHORIZED = ("unauthorized", "denied", "authentication required", "no basic auth")
_MISSING = ("not found", "manifest unknown", "name unknown", "no such image", "repository does not exist")


def pull_refused(text: str, status: int | None = None) -> RuntimeRefused:
    """Why a pull failed. A registry says "denied" for what is missing as well as for what is private: both are the
    customer's to mend, so the order here only chooses the hint."""
    words = text.lower()
    if _has(words, _DISK_FULL):
        return RuntimeRefused("host_disk_full", "pull")
    if status == 429 or _has(words, _RATE_LIMITED):
        return RuntimeRefused("registry_rate_limited")
    if status == 401 or _has(words, _UNAUTHORIZED):
        return RuntimeRefused("image_unauthorized")
    if status == 404 or _has(words, _MISSING):
        return RuntimeRefused("image_missing")
    return RuntimeRefused("registry_unavailable")


def create_refused(error: APIError) -> RuntimeRefused:
    """Why a container could not be created or started."""
    words = str(error.explanation or error).lower()
    if isinstance(error, ImageNotFound):
        return RuntimeRefused("image_missing", "removed")
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
