"""Machines for a benchmark, made by the services that make real ones; run inside ``manage.py shell``."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import uuid4

from accounts.models import User
from accounts.selectors import party_of
from accounts.services import user_register
from agent_protocol.messages import Gpu, Host, Inventory, inventory_digest
from agent_protocol.version import AGENT_VERSION
from core import clock
from core.ids import secret_hash, secret_new
from gpunex.demo.hosts import MIB
from providers.models import GpuModel, Provider
from providers.selectors import plan_version_of
from providers.services import (
    ApplicationInput,
    GpuGroupInput,
    application_approve,
    application_save_draft,
    application_submit,
    enrolment_token_issue,
    machine_enrol,
    machine_inventory_record,
)

MODEL = "rtx-4090-24gb"
PER_PROVIDER = 250


def make(count: int, gpus: int, *, part: int = 0) -> None:
    """Enrol ``count`` machines with ``gpus`` cards each, of providers that have no more than PER_PROVIDER, and print what
    their agents would know, as JSON. Makers that run beside each other take different parts."""
    now = clock.now()
    reviewer = user_register(email=f"reviewer-{part}@bench.example", password=None, is_staff=True)
    made: list[dict[str, Any]] = []
    while len(made) < count:
        machines = min(PER_PROVIDER, count - len(made))
        owner = user_register(email=f"owner-{part}-{len(made)}@bench.example", password=None)
        provider = _provider(owner, reviewer, machines, gpus, now)
        _token, token = enrolment_token_issue(provider=provider, actor=owner, now=now)
        made += [_machine(token, f"host-{part}-{len(made) + number}", gpus, now) for number in range(machines)]
    sys.stdout.write(json.dumps(made))


def _provider(owner: User, reviewer: User, machines: int, gpus: int, now: datetime) -> Provider:
    group = GpuGroupInput(
        gpu_model=MODEL,
        quantity=min(1024, machines * gpus),
        host_memory_gb=128,
        upload_gbps=Decimal(1),
        download_gbps=Decimal(1),
        city="Berlin",
        country="DE",
    )
    data = ApplicationInput(legal_name="Bench", email=owner.email, ups="all", commitment_months=0, groups=(group,))
    application = application_save_draft(party=party_of(owner), applicant=owner, data=data, now=now)
    application_submit(application=application, actor=owner, now=now)
    return application_approve(
        application=application,
        tier="community",
        reviewer=reviewer,
        reason="for the benchmark",
        approved_machines=machines,
        now=now,
    )


def _machine(token: str, hostname: str, gpus: int, now: datetime) -> dict[str, Any]:
    model = GpuModel.objects.get(slug=MODEL)
    alias = model.aliases.first()
    assert alias is not None
    credential, boot_id = secret_new("gpxa"), str(uuid4())
    host = Host(architecture="x86_64", hostname=hostname)
    machine = machine_enrol(
        token=token,
        key=uuid4(),
        credential_hash=secret_hash(credential),
        boot_id=boot_id,
        agent_version=AGENT_VERSION,
        simulated=True,
        host=host,
        now=now,
    ).machine
    cards = tuple(
        Gpu(uuid=f"GPU-{uuid4()}", name=alias.nvml_name, memory_bytes=model.memory_mib * MIB, health="ok", reasons={})
        for _ in range(gpus)
    )
    inventory = Inventory(host=host, gpus=cards)
    machine_inventory_record(machine=machine, inventory=inventory, now=now)
    return {
        "credential": credential,
        "boot_id": boot_id,
        "plan_version": plan_version_of(machine.pk),
        "inventory_digest": inventory_digest(inventory),
        "gpus": [card.uuid for card in cards],
    }
