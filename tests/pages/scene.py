"""What there is to see: the pages, who looks at them, and the little world behind them."""

from __future__ import annotations

from dataclasses import dataclass, field

from accounts.models import User
from accounts.services import notification_send
from core import clock
from tests.factories.cast import person

PUBLIC = ["/", "/roles/", "/account/login/", "/account/signup/", "/account/password/reset/", "/nowhere/"]
SIGNED_IN = [
    "/account/",
    "/account/email/",
    "/account/password/change/",
    "/account/2fa/",
    "/inbox/",
]


@dataclass
class Scene:
    people: dict[str, User]
    paths: dict[str, list[str]] = field(default_factory=dict)
    """Who (``nobody`` or a name of the cast) → the paths that person looks at."""

    def views(self) -> list[tuple[str, str]]:
        return [(who, path) for who, paths in self.paths.items() for path in paths]


def build() -> Scene:
    people = {name.lower(): person(name) for name in ("Ada", "Ravi")}
    people["olga"] = person("Olga", is_staff=True, permissions=True)
    for user in people.values():
        notification_send(kind="welcome", user=user, context={}, url="/roles/", now=clock.now())
    return Scene(people, {"nobody": PUBLIC, "ravi": SIGNED_IN})
