"""Builders for the market, through services: machines enrol, report, are measured and confirmed; jobs are submitted.

``Agent`` plays a host: it reads its plan as a real one does and reports with the token it finds there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any
from uuid import UUID, uuid4

from accounts.models import Party, User
from accounts.selectors import party_of
from agent_protocol import messages as wire
from benchmarks.models import Run
from benchmarks.services import run_report, runs_request_for_machine
from benchmarks.services.dispatch import run_offer
from core import clock
from core.ids import secret_hash, secret_new
from marketplace.jobspec import JobSpec
from marketplace.models import Attempt, Job, Listing
from marketplace.services import (
    Placed,
    attempt_end,
    attempt_observe,
    job_place,
    job_submit,
    listings_refresh,
    rate_set,
)
from providers.models import Application, ApplicationGpuGroup, GpuModel, Machine, Provider
from providers.places import region_of
from providers.selectors import plan_of
from providers.services import enrolment_token_issue, machine_confirm, machine_enrol, machine_inventory_record
from reliability.selectors.live import Beat
from reliability.services.heartbeats import beats_apply
from tests.factories.benchmarks import proof_made
from tests.factories.billing import funded
from tests.factories.cast import person

MIB = 1024 * 1024
MODEL = "l4-24gb"
_numbers = count(1)


def party(owner: User | Party) -> Party:
    return owner if isinstance(owner, Party) else party_of(owner)


def provider_of_user(
    owner: User, *, country: str = "DE", tier: str = "community", commitment: int = 0, machines: int = 200
) -> Provider:
    """A provider with an approved application for any quantity of every model."""
    # Rows, not the review's services: what is tested here begins after the approval.
    now = clock.now()
    application = Application.objects.create(
        party=party(owner),
        applicant=owner,
        status="approved",
        legal_name=owner.name,
        email=owner.email,
        tier=tier,
        commitment_months=commitment,
        updated_at=now,
        decided_at=now,
    )
    for position, model in enumerate(GpuModel.objects.all()):
        ApplicationGpuGroup.objects.create(
            application=application, position=position, gpu_model=model, quantity=1024, country=country
        )
    return Provider.objects.create(
        party=party(owner),
        application=application,
        tier=tier,
        country=country,
        region=region_of(country),
        commitment_months=commitment,
        approved_machines=machines,
        joined_at=now,
    )


def provider_new(name: str | None = None, **options: Any) -> Provider:
    return provider_of_user(person(name or f"Provider{next(_numbers)}"), **options)


def machine_new(
    provider: Provider,
    *,
    gpus: int = 1,
    model: str = MODEL,
    confirmed: bool = True,
    online: bool = True,
    measured: bool = True,
    quality: float = 1.0,
    now: datetime | None = None,
) -> Machine:
    """A simulated machine of a provider, by default confirmed, online and with passing verdicts. ``quality`` scales figures."""
    now = now or clock.now()
    _token, secret = enrolment_token_issue(provider=provider, actor="test", now=now)
    host = wire.Host(
        architecture="x86_64",
        hostname=f"rack-{next(_numbers)}",
        cpu_count=64,
        ram_bytes=2**38,
        disk_total_bytes=2 * 10**12,
        driver_version="570.86",
        cuda_version="12.8",
    )
    enrolled = machine_enrol(
        token=secret,
        key=uuid4(),
        credential_hash=secret_hash(secret_new("gpxa")),
        boot_id="boot-1",
        agent_version="1.0.0",
        simulated=True,
        host=host,
        now=now,
    )
    machine = enrolled.machine
    cards = tuple(_card(model) for _ in range(gpus))
    inventory = wire.Inventory(host=host, gpus=cards, driver_version="570.86", cuda_version="12.8")
    machine_inventory_record(machine=machine, inventory=inventory, now=now)
    if confirmed:
        machine_confirm(machine=machine, actor=None, now=now)
    if online:
        beat(machine, now)
    if measured:
        measure(machine, quality=quality, now=now)
    listings_refresh(machine_id=machine.pk, now=now)
    return Machine.objects.select_related("provider__party").get(pk=machine.pk)


def _card(slug: str) -> wire.Gpu:
    model = GpuModel.objects.get(slug=slug)
    alias = model.aliases.order_by("nvml_name").first()
    assert alias is not None
    return wire.Gpu(
        uuid=f"GPU-{uuid4()}", name=alias.nvml_name, memory_bytes=model.memory_mib * MIB, health="ok", reasons={}
    )


def beat(machine: Machine, now: datetime) -> None:
    """The machine was heard of at ``now``."""
    beats_apply([Beat(str(machine.pk), at=now, first_at=now, boot_id="boot-1", telemetry="[]")], now=now)


def figures(model: GpuModel, quality: float) -> wire.BenchmarkMetrics:
    def of(name: str) -> float:
        measured = getattr(model, f"{name}_reference")
        return float(measured if measured is not None else getattr(model, f"{name}_peak") * 8 / 10) * quality

    bandwidth = of("bandwidth_gbps")
    return wire.BenchmarkMetrics(
        fp32_tflops=of("fp32_tflops"),
        fp16_tflops=of("fp16_tflops"),
        tensor_tflops=of("fp16_tflops"),
        memory_read_gbps=bandwidth,
        memory_write_gbps=bandwidth,
        memory_copy_gbps=bandwidth,
        storage_read_mbps=2000.0,
        storage_write_mbps=1500.0,
        network_down_mbps=5000.0,
        network_up_mbps=5000.0,
        latency_ms=10.0,
    )


def measure(machine: Machine, *, quality: float = 1.0, now: datetime | None = None) -> None:
    """Run every requested benchmark of the machine once, as its agent would."""
    runs_request_for_machine(machine.pk)
    now = max(now or clock.now(), clock.now())  # a run is not due before it was asked for
    # This machine's first run per GPU only: a dispatch of all would put follow-up runs onto other machines' GPUs.
    for gpu in machine.gpus.filter(status="active"):
        due = Run.objects.filter(gpu=gpu, status="requested").order_by("requested_at").first()
        if due is not None and run_offer(run_id=due.pk, now=now):
            run = Run.objects.select_related("gpu__model", "suite").get(pk=due.pk)
            proof_made(run, now=now)
            conditions = wire.BenchmarkConditions(throttle_reasons=(), simulated=True, device="simulated")
            report = wire.BenchmarkReport(
                run_id=str(run.pk),
                nonce=run.challenge["nonce"],
                suite_version=run.suite.version,
                gpu_uuid=run.gpu.uuid,
                metrics=figures(run.gpu.model, quality),
                conditions=conditions,
            )
            run_report(machine=machine, report=report, now=now)


def listing_new(
    provider: Provider | None = None, *, rate_micro: int = 400_000, gpus: int = 1, model: str = MODEL, **options: Any
) -> Listing:
    """A visible listing: a machine with a rate."""
    provider = provider or provider_new()
    machine = machine_new(provider, gpus=gpus, model=model, **options)
    gpu_model = GpuModel.objects.get(slug=model)
    now = options.get("now") or clock.now()
    rate_set(provider=provider, gpu_model=gpu_model, machine=machine, rate_micro=rate_micro, actor=None, now=now)
    return Listing.objects.select_related("machine", "gpu_model", "provider__party").get(
        machine=machine, gpu_model=gpu_model
    )


def spec(**options: Any) -> JobSpec:
    """A small job by criteria: one GPU of any model for at most 1 USDC per hour."""
    return JobSpec(**({"image": "python:3.12", "command": ("python", "-V"), "max_rate_micro": 1_000_000} | options))


def job_new(customer: User | Party, *, now: datetime | None = None, **options: Any) -> Job:
    return job_submit(customer=party(customer), spec=spec(**options), actor=None, now=now or clock.now())


@dataclass
class Agent:
    """A host as the platform sees it. It remembers the tokens of its attempts, as a real one does."""

    machine: Machine
    tokens: dict[UUID, str] = field(default_factory=dict)

    def plan(self) -> dict[UUID, dict[str, Any]]:
        """{attempt: body} of the attempts this machine is told about."""
        _version, items = plan_of(self.machine.pk)
        return {UUID(item["key"]): item["body"] for item in items if item["kind"] == "attempt"}

    def token(self, attempt: Attempt) -> str:
        plan = self.plan().get(attempt.pk)
        if plan is not None:
            self.tokens[attempt.pk] = str(plan["token"])
        return self.tokens[attempt.pk]

    def observe(
        self, attempt: Attempt, state: str, *, at: datetime, elapsed: int | None = None, token: str | None = None
    ) -> None:
        status = wire.AttemptStatus(
            attempt_id=str(attempt.pk), token=token or self.token(attempt), state=state, elapsed_s=elapsed
        )
        attempt_observe(machine=self.machine, status=status, now=at)

    def end(
        self,
        attempt: Attempt,
        *,
        at: datetime,
        reason: str = "completed",
        exit_code: int | None = 0,
        elapsed: int | None = None,
        token: str | None = None,
        oom: bool = False,
    ) -> None:
        event = wire.AttemptEnded(
            attempt_id=str(attempt.pk),
            token=token or self.token(attempt),
            exit_code=exit_code,
            reason=reason,
            elapsed_s=elapsed,
            oom_killed=oom,
        )
        attempt_end(machine=self.machine, event=event, now=at)


@dataclass
class Story:
    """A job of a funded customer on a machine: what most tests begin with."""

    job: Job
    listing: Listing
    agent: Agent
    attempt: Attempt

    def reload(self) -> Story:
        self.job.refresh_from_db()
        self.attempt.refresh_from_db()
        self.listing.refresh_from_db()
        return self


def story(
    customer: User | Party, *, now: datetime, balance_micro: int = 100_000_000, gpus: int = 1, **options: Any
) -> Story:
    """A placed job with its attempt offered. Options are those of a job; ``gpus`` is what the machine has."""
    listing = listing_new(gpus=gpus, rate_micro=options.pop("rate_micro", 3_600_000))
    funded(customer, balance_micro, now=now)
    job = job_new(customer, now=now, **({"max_rate_micro": listing.rate_micro} | options))
    assert job_place(job_id=job.pk, now=now) is Placed.PLACED
    job.refresh_from_db()
    attempt = live_attempt(job)
    agent = Agent(attempt.machine)
    agent.token(attempt)
    # Where there are several listings the scheduler chose: the story goes on with its choice.
    listing = Listing.objects.select_related("machine", "gpu_model", "provider__party").get(machine=attempt.machine)
    return Story(job, listing, agent, attempt)


def live_attempt(job: Job) -> Attempt:
    return Attempt.objects.select_related("machine").exclude(status="ended").get(job=job)
