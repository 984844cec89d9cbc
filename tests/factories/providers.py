"""Providers, machines and cards, built through the services as people and agents would.

provider = provider_make(ada, reviewer=olga)
machine = machine_make(provider, gpus=[gpu_report("NVIDIA L4")])
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

from accounts.models import User
from accounts.selectors import party_of
from agent_protocol.messages import Gpu as ReportedGpu
from agent_protocol.messages import Host, Inventory
from core import clock
from core.ids import secret_hash, secret_new
from providers import services
from providers.matching import MIB
from providers.models import Application, Gpu, GpuModelAlias, Machine, Provider

GROUP = services.GpuGroupInput(
    gpu_model="l4-24gb",
    quantity=8,
    host_memory_gb=256,
    upload_gbps=Decimal("1.5"),
    download_gbps=Decimal(10),
    city="Frankfurt",
    country="DE",
)
APPLICATION = services.ApplicationInput(
    legal_name="Ada Lovelace",
    email="ada@example.com",
    company="Engines Ltd",
    ups="all",
    commitment_months=12,
    groups=(GROUP,),
)
HOST = Host(
    architecture="x86_64",
    hostname="rack-1",
    cpu_count=64,
    ram_bytes=256 * 2**30,
    disk_total_bytes=4 * 10**12,
    engine="docker",
    engine_version="27.1",
    driver_version="550.54.15",
    cuda_version="12.4",
)


def groups(*wanted: tuple[str, int], **changes: Any) -> tuple[services.GpuGroupInput, ...]:
    """Groups such as ``groups(("l4-24gb", 2), ("h100-sxm-80gb", 8))``."""
    return tuple(replace(GROUP, gpu_model=slug, quantity=quantity, **changes) for slug, quantity in wanted)


def application_make(
    user: User, *, data: services.ApplicationInput = APPLICATION, submit: bool = True, now: datetime | None = None
) -> Application:
    """The user's application: submitted, or as a draft."""
    now = now or clock.now()
    application = services.application_save_draft(party=party_of(user), applicant=user, data=data, now=now)
    if submit:
        services.application_submit(application=application, actor=user, now=now)
    return application


def provider_make(
    user: User,
    *,
    reviewer: User,
    gpus: tuple[services.GpuGroupInput, ...] = (GROUP,),
    tier: str = "enterprise",
    now: datetime | None = None,
) -> Provider:
    """``user`` as an approved provider of the given groups."""
    application = application_make(user, data=replace(APPLICATION, groups=gpus), now=now)
    return services.application_approve(
        application=application, tier=tier, reviewer=reviewer, reason="Meets the rules.", now=now or clock.now()
    )


def gpu_report(name: str = "NVIDIA L4", *, uuid: str | None = None, **changes: Any) -> ReportedGpu:
    """A healthy card as an agent reports it; its memory is the catalogue's for that name, unless given."""
    if "memory_bytes" not in changes:
        alias = GpuModelAlias.objects.select_related("model").filter(nvml_name=name).first()
        changes["memory_bytes"] = alias.model.memory_mib * MIB if alias else 24 * 2**30
    values: dict[str, Any] = {"mig_enabled": False, "health": "ok", "reasons": {}, **changes}
    return ReportedGpu(uuid=uuid or f"GPU-{uuid4()}", name=name, **values)


def inventory(gpus: Iterable[ReportedGpu], *, host: Host = HOST) -> Inventory:
    return Inventory(host=host, gpus=tuple(gpus), driver_version=host.driver_version, cuda_version=host.cuda_version)


def enrol(
    provider: Provider, *, token: str | None = None, key: UUID | None = None, **changes: Any
) -> tuple[Machine, str, str]:
    """A machine that has just enrolled: (machine, its credential, the token used)."""
    now = changes.pop("now", None) or clock.now()
    if token is None:
        _row, token = services.enrolment_token_issue(provider=provider, actor="test", now=now)
    credential = secret_new("gpxa")
    values: dict[str, Any] = {
        "boot_id": "boot-1",
        "agent_version": "0.1.0",
        "simulated": True,
        "host": HOST,
        **changes,
    }
    enrolled = services.machine_enrol(
        token=token, key=key or uuid4(), credential_hash=secret_hash(credential), now=now, **values
    )
    return enrolled.machine, credential, token


def machine_make(
    provider: Provider,
    *,
    gpus: Iterable[ReportedGpu] | None = None,
    confirm: bool = True,
    now: datetime | None = None,
    **changes: Any,
) -> Machine:
    """An enrolled machine with recorded cards (one L4 by default), confirmed by its owner."""
    now = now or clock.now()
    machine, _credential, _token = enrol(provider, now=now, **changes)
    reported = [gpu_report()] if gpus is None else list(gpus)
    services.machine_inventory_record(machine=machine, inventory=inventory(reported), now=now)
    if confirm:
        services.machine_confirm(machine=machine, actor="test", now=now)
    machine.refresh_from_db()
    return machine


def gpus_of(machine: Machine) -> list[Gpu]:
    return list(Gpu.objects.filter(machine=machine).order_by("uuid"))
