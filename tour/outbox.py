"""Mails as people get them: the file backend's folder below the data folder."""

from __future__ import annotations

import email
import email.policy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SEPARATOR = "-" * 79


@dataclass(frozen=True)
class Mail:
    subject: str
    body: str


class Outbox:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def to(self, address: str) -> list[Mail]:
        """Every mail to this address, oldest first."""
        return [mail for recipient, mail in self._all() if address in recipient]

    def _all(self) -> Iterator[tuple[str, Mail]]:
        for path in sorted(self.folder.glob("*.log")):
            for raw in path.read_text(errors="replace").split(SEPARATOR):
                if raw.strip():
                    message = email.message_from_string(raw.strip(), policy=email.policy.default)
                    part = message.get_body(("plain",))
                    body = part.get_content() if part is not None else ""
                    yield str(message["To"]), Mail(str(message["Subject"]), body)
