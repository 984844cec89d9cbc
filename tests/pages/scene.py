"""What there is to see: the pages, who looks at them, and the little world behind them."""

from __future__ import annotations

from dataclasses import dataclass, field

from accounts.models import User
from accounts.services import notification_send
from billing.services import deposit_intent_open
from core import clock
from tests.factories.billing import funded
from tests.factories.cast import person
from tests.factories.marketplace import listing_new, provider_new
from tests.factories.reliability import week_of

PUBLIC = [
    "/",
    "/roles/",
    "/account/login/",
    "/account/signup/",
    "/account/password/reset/",
    "/agent/manual/",
    "/api/docs/",
    "/nowhere/",
]
SIGNED_IN = [
    "/account/",
    "/account/email/",
    "/account/password/change/",
    "/account/2fa/",
    "/inbox/",
    "/provider/apply/",
    "/billing/",
]
PROVIDER = [
    "/provider/application/",
    "/provider/benchmarks/",
    "/provider/performance/",
]
LISTINGS = [
    ("Petra", "DE", "l4-24gb", 380_000),
    ("Noor", "US", "h100-sxm-80gb", 2_150_000),
    ("Kofi", "SG", "a100-pcie-80gb", 1_090_000),
]


@dataclass
class Scene:
    people: dict[str, User]
    paths: dict[str, list[str]] = field(default_factory=dict)
    """Who (``nobody`` or a name of the cast) → the paths that person looks at."""

    def views(self) -> list[tuple[str, str]]:
        return [(who, path) for who, paths in self.paths.items() for path in paths]


def build() -> Scene:
    people = {
        "ravi": person("Ravi"),
        "carl": person("Carl"),
        "ada": person("Ada"),
        "olga": person("Olga", is_staff=True, permissions=True),
    }
    week_of(people["ada"])
    for name, country, model, rate in LISTINGS:
        listing_new(provider_new(name, country=country), gpus=2, model=model, rate_micro=rate)
    notification_send(kind="welcome", user=people["ravi"], context={}, url="/roles/", now=clock.now())
    customer = funded(people["ravi"], 25_000_000)
    intent = deposit_intent_open(party=customer, amount_micro=10_000_000, now=clock.now())
    paths = {
        "nobody": PUBLIC,
        "ravi": [*SIGNED_IN, f"/billing/deposits/{intent.pk}/"],
        "carl": ["/billing/", "/inbox/"],
        "ada": PROVIDER,
    }
    return Scene(people, paths)
