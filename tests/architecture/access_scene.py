"""The people and things that test_access_matrix visits. Everything belongs to Ada (provider) or Ravi (customer)."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import uuid4

from django.test import Client

from accounts.models import User
from accounts.selectors import party_of
from accounts.services import notification_send
from billing.services import claim_evidence_open, deposit_intent_open, receipt_issue
from core import clock
from marketplace.services import Placed, job_place
from tests.architecture.access_rules import Route
from tests.factories.billing import funded
from tests.factories.cast import person
from tests.factories.documents import deposited
from tests.factories.marketplace import job_new, listing_new
from tests.factories.providers import machine_make, provider_make
from tests.factories.withdrawals import withdrawal_wallet, withdrawing


@dataclass
class Scene:
    people: dict[str, User]
    things: dict[str, dict[str, str]] = field(default_factory=dict)
    """Route → its placeholders, where the placeholder's name alone does not say which thing is meant."""
    ids: dict[str, str] = field(default_factory=dict)
    """Placeholder → the id of the thing."""

    clients: dict[str, Client] = field(default_factory=dict)

    def client(self, who: str) -> Client:
        """The browser of one of the people, or of ``anonymous``."""
        if who not in self.clients:
            self.clients[who] = Client(raise_request_exception=False)
            if who != "anonymous":
                self.clients[who].force_login(self.people[who])
        return self.clients[who]

    def values(self, route: Route) -> dict[str, str]:
        return {**self.ids, **self.things.get(route.path, {})}


def build() -> Scene:
    people = {
        "ada": person("Ada"),
        "ravi": person("Ravi"),
        "eve": person("Eve"),
        "other_provider": person("Petra"),
        "other_customer": person("Carl"),
        "clerk": person("Clerk", is_staff=True),
    }
    (message,) = notification_send(kind="welcome", user=people["ravi"], context={}, url="/roles/", now=clock.now())
    machine = machine_make(provider_make(people["ada"], reviewer=people["clerk"]))
    provider_make(people["other_provider"], reviewer=people["clerk"])
    intent = deposit_intent_open(party=party_of(people["ravi"]), amount_micro=None, now=clock.now())
    listing = listing_new(machine.provider)
    job = job_new(funded(people["ravi"], 10_000_000))
    assert job_place(job_id=job.pk, now=clock.now()) is Placed.PLACED
    receipt = receipt_issue(deposit=deposited(people["ravi"], 1_000_000, at=clock.now()), now=clock.now())
    funded(people["ravi"], 20_000_000)
    withdrawal_wallet(people["ravi"])
    withdrawal = withdrawing(people["ravi"], 6_000_000)
    claim = claim_evidence_open(
        party=party_of(people["ravi"]), signature="1" * 64, evidence="Withdrawal 4711 of the exchange.", now=clock.now()
    )
    ids = {
        "payout_id": str(withdrawal.pk),
        "claim_id": str(claim.pk),
        "document_id": str(receipt.pk),
        "form": "pdf",
        "job_id": str(job.pk),
        "listing_id": str(listing.pk),
        "action": "drain",
        "intent_id": str(intent.pk),
        "notification_id": str(message.pk),
        "machine_id": str(machine.pk),
        "attempt_id": str(uuid4()),
        "gpu_id": str(machine.gpus.get().pk),
        "key": "nonsense",
        "uidb36": "1",
    }
    return Scene(people, ids=ids)
