"""What a job keeps sealed: the secrets of its environment, and the login at its image's registry.

Stored as one text in ``Job.secrets`` (core.sealing), so that one law of the database deletes both with the job's end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from agent_protocol.images import image_parse
from core.sealing import seal, unseal

PURPOSE = "marketplace.job"
"""What job secrets are sealed for (core.sealing)."""


class JobSecrets(NamedTuple):
    """``login``: the message RegistryLogin as a dictionary, None for a public image."""

    environment: dict[str, str]
    login: dict[str, str] | None


def job_seal(*, image: str, environment: Mapping[str, str], username: str, password: str) -> bytes | None:
    """Sealed; None where there is nothing to keep. The login is bound to the registry of ``image``, a checked name."""
    kept = {}
    if environment:
        kept["environment"] = json.dumps(dict(environment))
    if username:
        login = {"registry": image_parse(image).registry, "username": username, "password": password}
        kept["login"] = json.dumps(login)
    return seal(PURPOSE, kept) if kept else None


def job_unseal(sealed: bytes) -> JobSecrets:
    """Raises cryptography.fernet.InvalidToken, as core.sealing.unseal."""
    kept = unseal(PURPOSE, sealed)
    return JobSecrets(json.loads(kept.get("environment", "{}")), json.loads(kept.get("login", "null")))
