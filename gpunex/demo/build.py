"""Builds the demo's people, providers, tokens and prices. Running it again adds what is missing and changes nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

from accounts.models import User
from accounts.selectors import party_of
from billing.services import policies_demo_install
from core.money import parse_usdc
from gpunex.demo.hosts import host_write
from gpunex.demo.people import CUSTOMERS, DOMAIN, cast_gather, person
from gpunex.demo.world import ADA, APPLICANTS, OTHERS, PRICES, Applicant, DemoProvider
from marketplace.models import Listing
from marketplace.services import rate_set
from providers.models import Application, GpuModel, Machine, Provider
from providers.selectors import application_of, machines_of, provider_of
from providers.services import (
    ApplicationInput,
    GpuGroupInput,
    application_approve,
    application_save_draft,
    application_submit,
    enrolment_token_issue,
    machine_confirm,
)
from providers.services.application_input import OTHER

CENT_MICRO = 10_000


def demo_build(folder: Path, *, now: datetime) -> None:
    """Everything but what needs running hosts; see ``demo_follow``. ``folder`` is the data folder."""
    policies_demo_install(now=now)
    cast = cast_gather(folder / "logins.json")
    _provider_build(ADA, cast["ada"], cast["olga"], _ada_hosts(folder), now=now)
    for spec in OTHERS:
        owner = person(f"{spec.handle}@{DOMAIN}", name=spec.name, handle=spec.handle, password=None)
        _provider_build(spec, owner, cast["olga"], _other_hosts(folder, spec), now=now)
    cast_gather(folder / "customers.json", cast=CUSTOMERS)
    for applicant in APPLICANTS:
        _apply(applicant, now=now)


def _ada_hosts(folder: Path) -> list[Path]:
    return [folder / "hosts" / f"ada-{number}" for number in range(1, len(ADA.machines) + 1)]


def _other_hosts(folder: Path, spec: DemoProvider) -> list[Path]:
    return [folder / "hosts" / "others" / f"{spec.handle}-{number}" for number in range(1, len(spec.machines) + 1)]


def _provider_build(spec: DemoProvider, owner: User, reviewer: User, hosts: list[Path], *, now: datetime) -> None:
    provider = provider_of(party_of(owner)) or _approve(spec, owner, reviewer, now)
    missing = [host for host in hosts if not (host / "token").exists()]
    if missing:
        _token, secret = enrolment_token_issue(provider=provider, actor=owner, now=now)
        for host, machine in zip(hosts, spec.machines, strict=True):
            host_write(host, machine, token=secret)
    for slug in sorted({machine.model for machine in spec.machines}):
        model = GpuModel.objects.get(slug=slug)
        rate_set(provider=provider, gpu_model=model, rate_micro=asking_micro(slug, spec.price), actor=owner, now=now)


def _apply(applicant: Applicant, *, now: datetime) -> None:
    """Hand an application in that waits for Olga. What she decides is not undone by the next start."""
    spec = applicant.provider
    owner = person(f"{spec.handle}@{DOMAIN}", name=spec.name, handle=spec.handle, password=None)
    known = application_of(party_of(owner))
    if known is not None and known.status != Application.Status.DRAFT:
        return
    data = replace(_application(spec, owner), maintenance_note=applicant.note)
    if applicant.other_model:
        other = replace(data.groups[0], gpu_model=OTHER, other_model=applicant.other_model, quantity=1)
        data = replace(data, groups=(*data.groups, other))
    submitted = now - timedelta(hours=applicant.hours)
    application = application_save_draft(party=party_of(owner), applicant=owner, data=data, now=submitted)
    application_submit(application=application, actor=owner, now=submitted)


def _approve(spec: DemoProvider, owner: User, reviewer: User, now: datetime) -> Provider:
    application = application_save_draft(
        party=party_of(owner), applicant=owner, data=_application(spec, owner), now=now
    )
    application_submit(application=application, actor=owner, now=now)
    return application_approve(
        application=application,
        tier=spec.tier,
        reviewer=reviewer,
        reason="Everything that was asked for is there. Welcome!",
        approved_machines=len(spec.machines) + spec.spare,
        now=now,
    )


def _application(spec: DemoProvider, owner: User) -> ApplicationInput:
    cards = Counter[str]()
    for machine in spec.machines:
        cards[machine.model] += machine.gpus
    largest = {machine.model: machine for machine in spec.machines}
    groups = tuple(
        GpuGroupInput(
            gpu_model=slug,
            quantity=quantity + spec.spare,
            host_memory_gb=largest[slug].memory_gb,
            upload_gbps=Decimal(largest[slug].gbps),
            download_gbps=Decimal(largest[slug].gbps),
            city=spec.city,
            country=spec.country,
            region=spec.datacenter,
        )
        for slug, quantity in cards.items()
    )
    return ApplicationInput(
        legal_name=spec.name,
        email=owner.email,
        company=spec.company,
        ups=spec.ups,
        commitment_months=spec.commitment_months,
        groups=groups,
    )


def asking_micro(slug: str, position: float) -> int:
    """A rate between low (0), typical (1) and high (2) of the model, in whole cents; micro-USDC per GPU-hour."""
    low, typical, high = (parse_usdc(text) for text in PRICES[slug])
    per_mille = round(position * 1000)
    lower, upper, share = (low, typical, per_mille) if per_mille <= 1000 else (typical, high, per_mille - 1000)
    return (lower + (upper - lower) * share // 1000) // CENT_MICRO * CENT_MICRO


def demo_follow(*, now: datetime) -> int:
    """What the owners do once their hosts have enrolled: confirm them. Returns how many hosts are still to come."""
    waiting = 0
    for spec in (ADA, *OTHERS):
        provider = Provider.objects.get(party__handle=spec.handle)
        owner = provider.application.applicant
        here = list(machines_of(provider))
        for machine in here:
            if machine.status == Machine.Status.PENDING_CONFIRMATION and machine.simulated:
                machine_confirm(machine=machine, actor=owner, now=now)
        waiting += max(0, len(spec.machines) - len(here))
    return waiting


def demo_unlisted() -> int:
    """How many sound machines of the demo are not in the market yet."""
    sound = sum(machine.share == 1.0 for spec in (ADA, *OTHERS) for machine in spec.machines)
    handles = [spec.handle for spec in (ADA, *OTHERS)]
    return max(0, sound - Listing.objects.filter(provider__party__handle__in=handles, visible=True).count())
