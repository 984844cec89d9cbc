"""What the steps share: the people, the addresses, and patience with a limit."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tour.outbox import Outbox
from tour.visitor import NotSeen, Visitor
from tour.wallet import Wallet

T = TypeVar("T")
PATIENCE_SECONDS = 300.0
"""Costs nothing where things go well; a machine that is busy with other things takes its time."""
LOOK_SECONDS = 0.5


@dataclass
class Guide:
    """``said``: what the present step has seen so far, one line each."""

    url: str
    data: Path
    logins: dict[str, dict[str, str]]
    rpc_url: str
    said: list[str] = field(default_factory=list)
    visitors: dict[str, Visitor] = field(default_factory=dict)

    @classmethod
    def of(cls, url: str | None, data: Path) -> Guide:
        """Raises NotSeen when the folder does not belong to a running demo."""
        try:
            logins = json.loads((data / "logins.json").read_text())
            run = json.loads((data / "run.json").read_text())
        except (OSError, ValueError) as error:
            raise NotSeen(f"{data} is not the data folder of a running bin/start: {error}") from None
        return cls(url or run["url"], data, logins, run["rpc_url"])

    @property
    def outbox(self) -> Outbox:
        return Outbox(self.data / "mail")

    @property
    def wallet(self) -> Wallet:
        return self.wallet_of("tour")

    def wallet_of(self, name: str) -> Wallet:
        """Everybody has their own, so that nobody's balance moves under another's eyes."""
        return Wallet(self.rpc_url, self.data / f"{name}-wallet.json")

    def saw(self, text: str) -> None:
        self.said.append(text)

    def visitor(self, name: str) -> Visitor:
        """A person of the cast, logged in."""
        if name not in self.visitors:
            visitor = Visitor(self.url)
            visitor.log_in(self.logins[name]["email"], self.logins[name]["password"])
            self.visitors[name] = visitor
        return self.visitors[name]

    def until(self, what: str, look: Callable[[], T | None], *, seconds: float = PATIENCE_SECONDS) -> T:
        """The first answer that is something. Raises NotSeen with ``what`` when patience ends."""
        deadline = time.monotonic() + seconds
        while True:
            found = look()
            if found is not None and found is not False:
                return found
            if time.monotonic() > deadline:
                raise NotSeen(f"not within {seconds:.0f} s: {what}")
            time.sleep(LOOK_SECONDS)


def usdc(micro: int) -> str:
    return f"{micro / 1_000_000:.6f} USDC"


def only(rows: list[Any], what: str) -> Any:
    """The first row. Raises NotSeen when there is none."""
    if not rows:
        raise NotSeen(f"there is no {what}")
    return rows[0]
