"""What there is to see: the pages, who looks at them, and the little world behind them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta

from accounts.models import Party, User
from accounts.selectors import party_of
from accounts.services import notification_send
from billing.models import Document
from billing.services import (
    claim_evidence_open,
    deposit_intent_open,
    earnings_mature,
    payout_statement_issue,
    receipt_issue,
    withdrawal_cancel,
)
from core import clock
from marketplace.models import Job
from marketplace.services import jobs_place
from providers.models import Machine, Provider
from providers.services import machine_drain, machine_label
from tests.factories.billing import earned, funded
from tests.factories.cast import person
from tests.factories.documents import deposited, destination_for, reserved, rules, settled
from tests.factories.marketplace import Agent, job_new, listing_new, live_attempt, machine_new, provider_new
from tests.factories.reliability import day_of_telemetry, fall_silent, week_of
from tests.factories.withdrawals import withdrawal_wallet, withdrawing

PUBLIC = [
    "/",
    "/market/",
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
    "/billing/withdrawals/",
    "/billing/claims/",
]
PROVIDER = [
    "/provider/",
    "/provider/machines/",
    "/provider/pricing/",
    "/provider/earnings/",
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
    now = clock.now()
    people = {name.lower(): person(name) for name in ("Ravi", "Carl", "Ada")}
    people["olga"] = person("Olga", is_staff=True, permissions=True)
    week_of(people["ada"])
    listing, *_others = [
        listing_new(provider_new(name, country=country), gpus=4, model=model, rate_micro=rate)
        for name, country, model, rate in LISTINGS
    ]
    day_of_telemetry(listing.machine, now=now)
    offline = _rest_of_the_fleet(listing.machine)
    people["petra"] = User.objects.get(email="petra@example.com")
    customer = funded(people["ravi"], 25_000_000)
    intent = deposit_intent_open(party=customer, amount_micro=10_000_000, now=now)
    running, ended, waiting = _jobs(people["ravi"])
    _money_back(people["ravi"])
    receipt = receipt_issue(deposit=deposited(people["ravi"], 4_000_000, at=now), now=now)
    statement = _paid_week(listing.machine.provider, customer)
    notification_send(kind="welcome", user=people["ravi"], context={}, url="/roles/", now=now)
    paths = {
        "nobody": [*PUBLIC, f"/market/{listing.pk}/"],
        "ravi": [
            *("/billing/documents/", f"/billing/documents/{receipt.pk}/"),
            *(*SIGNED_IN, f"/billing/deposits/{intent.pk}/", f"/market/{listing.pk}/"),
            *("/jobs/", f"/jobs/new/?listing={listing.pk}", *(f"/jobs/{job.pk}/" for job in (running, ended, waiting))),
        ],
        "carl": ["/billing/", "/inbox/", "/jobs/", "/jobs/new/", "/provider/"],
        "ada": PROVIDER,
        "petra": [
            *PROVIDER,
            f"/billing/documents/{statement.pk}/",
            f"/provider/earnings/?since={now - timedelta(days=90):%Y-%m-%d}&until={now:%Y-%m-%d}",
            "/provider/machines/?state=attention",
            *(f"/provider/machines/{machine}/" for machine in (listing.machine_id, offline.pk)),
            f"/provider/machines/{listing.machine_id}/?span=24h",
        ],
    }
    return Scene(people, paths)


def _money_back(customer: User) -> None:
    """One withdrawal that can still be cancelled, one that was, and a claim that people look at."""
    withdrawal_wallet(funded(customer, 20_000_000))
    cancelled, _waiting = (withdrawing(customer, 5_000_000) for _number in range(2))
    withdrawal_cancel(party=party_of(customer), payout_id=cancelled.pk, actor=customer, now=clock.now())
    claim_evidence_open(
        party=party_of(customer), signature="1" * 64, evidence="Withdrawal 4711 of the exchange.", now=clock.now()
    )


def _paid_week(provider: Provider, customer: Party) -> Document:
    """Last week's earnings of a provider, paid and stated; this week's under way."""
    monday = datetime.combine(clock.now().date() - timedelta(days=clock.now().weekday()), time(), UTC)
    rules(monday - timedelta(days=60))
    destination_for(provider.party, usable_from=monday - timedelta(days=30))
    for day in range(1, 7):
        earned(provider.party, customer, day * 1_234_567, at=monday - timedelta(days=day))
    earnings_mature(now=monday - timedelta(minutes=1))
    earned(provider.party, customer, 2_000_000, at=monday)
    payout = reserved(provider.party, on=monday + timedelta(minutes=5))
    if payout is None:
        raise AssertionError("there is something to pay")
    return payout_statement_issue(payout=settled(payout, at=monday + timedelta(hours=1)), now=clock.now())


def _rest_of_the_fleet(machine: Machine) -> Machine:
    """Beside the good machine: two that went silent together, one drained, one new, all labelled. Returns a silent one."""
    now, provider = clock.now(), machine.provider
    silent = [machine_new(provider, gpus=2, measured=False) for _number in range(2)]
    draining = machine_new(provider, measured=False)
    new = machine_new(provider, confirmed=False, measured=False, online=False)
    machine_drain(machine=draining, actor=None, now=now)
    for labels, labelled in ((["Berlin", "rack 4"], [machine, draining]), (["Wedding"], [*silent, new])):
        for each in labelled:
            machine_label(machine=each, labels=labels, actor=None, now=now)
    fall_silent(*silent, at=now - timedelta(minutes=25))
    return silent[0]


def _jobs(customer: User) -> list[Job]:
    """One job that runs, one that has ended, one that waits because nobody is that cheap."""
    start = clock.now()
    jobs = [job_new(customer, name=name) for name in ("train-encoder", "render-scene")]
    jobs_place(now=start)
    running, ended = jobs
    for job in jobs:
        attempt = live_attempt(job)
        agent = Agent(attempt.machine)
        for state in ("pulling", "starting", "running"):
            agent.observe(attempt, state, at=start, elapsed=0 if state == "running" else None)
        if job is ended:
            agent.end(attempt, at=start + timedelta(minutes=7), elapsed=420)
    waiting = job_new(customer, name="too-cheap", max_rate_micro=10_000)
    return [running, ended, waiting]
