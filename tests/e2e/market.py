"""A running marketplace from both sides: as one of its customers, through public doors; inside, through its own models."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import docker
import httpx
import redis
from celery import Celery
from django.db import connections
from django.db.models import Sum
from django.test import override_settings

from billing.chain.localnet.client import LocalnetControl
from billing.models import EarningLine
from core.invariants import check_all
from marketplace.models import Attempt, Rental
from providers.models import Machine
from reliability.models import MachineHealth, PlatformPulse
from reliability.selectors import live
from tests.agent.waiting import eventually
from tests.e2e.running import Started
from tour.guide import Guide
from tour.steps import pay_in, sign_up
from tour.visitor import NotSeen

Found = TypeVar("Found")
OVER = ("succeeded", "failed", "cancelled", "lost")
PATIENCE_SECONDS = 300.0
LOOK_SECONDS = 0.25
STEP_SECONDS = 20
"""Time is moved in steps that a platform which is awake can take: a gap of 30 s between sweeps counts as its own outage."""
DEPOSIT = "25"
SECONDS_AT_LEAST = 3
IMAGE = "busybox:1"
"""In the tests' registry; plain processes do without."""
ADAS_L4 = ("ada-compute", "l4-24gb")
"""On the host ada-2, one card. The demo's customers never rent it, its agent has a process of its own, and with
``--docker`` its jobs are containers."""
ELSEWHERE = ("prairie-compute", "h100-pcie-80gb")
"""Four cards, of which the demo's customers rent one at most; many agents share this one's process."""


def wait(condition: Callable[[], Found], what: str) -> Found:
    return eventually(condition, what, PATIENCE_SECONDS, every_s=LOOK_SECONDS)


@dataclass(frozen=True)
class GatedJob:
    """A job that says ``begun``, waits until its gate is opened, and says ``done``. Only for plain processes."""

    id: str
    gate: Path

    def open(self) -> None:
        self.gate.touch()


@dataclass(frozen=True)
class ContainerJob(GatedJob):
    """The same in a container of Docker's; its gate is inside."""

    engine: docker.DockerClient

    def open(self) -> None:
        assert self.container.exec_run(["touch", str(self.gate)]).exit_code == 0

    @property
    def container(self) -> Any:
        return self.engine.containers.get(f"gpunex-job-{self.id}-1")


class Market:
    """The jobs of one customer. A newcomer is nobody of the demo's cast: what moves on that account is the test's doing.

    ``engine``: where Ada's hosts run their jobs, if the marketplace was started with ``--docker``.
    """

    LOG = ("begun", "done")

    def __init__(self, started: Started, clock: Path | None = None, engine: docker.DockerClient | None = None) -> None:
        self.started, self.folder = started, started.folder
        self.clock, self.ahead, self.engine = clock, 0, engine
        self.guide = Guide.of(None, started.folder)
        self.valkey = redis.Redis.from_url(started.valkey_url, decode_responses=True)
        self.jobs = Celery(broker=started.valkey_url, set_as_current=False)

    def newcomer_pays_in(self) -> None:
        sign_up(self.guide)
        pay_in(self.guide, "newcomer", DEPOSIT, self.guide.wallet)
        self.customer = self.guide.visitor("newcomer")

    def ravi_returns(self) -> None:
        self.customer = self.guide.visitor("ravi")

    # The customer's side

    def listing(self, provider: str, model: str) -> dict[str, Any] | None:
        """The provider's listing of that model with a free GPU."""
        found = self.customer.api("market/listings", model=model, limit="100")["listings"]
        return next((row for row in found if row["provider"] == provider and row["gpus_free"]), None)

    def balance(self) -> dict[str, int]:
        return dict(self.customer.api("billing/balance"))

    def submit(self, script: str, where: tuple[str, str] = ADAS_L4, **options: Any) -> str:
        """A job on a listing; its id."""
        listing = wait(lambda: self.listing(*where), f"{where} has a free GPU")
        body = {"image": IMAGE, "command": ["sh", "-c", script], "listing": listing["id"]}
        body |= {"max_rate_micro": listing["rate_micro"], "time_limit_s": 3600, **options}
        headers = {"X-CSRFToken": self.customer.http.cookies["csrftoken"], "Referer": self.customer.url}
        answer = self.customer.http.post("/api/v1/jobs", json=body, headers=headers)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def gated(self, where: tuple[str, str] = ADAS_L4, *, wait_for_begin: bool = True, **options: Any) -> GatedJob:
        """A job that has begun and goes on when it is told to."""
        inside = self.engine is not None and where == ADAS_L4
        gate = (Path("/tmp") if inside else self.folder.parent) / f"gate-{uuid4()}"
        begun, done = self.LOG
        # However long the gate was shut: some whole seconds ran, and cost something.
        script = f"echo {begun}; until [ -e {gate} ]; do sleep 0.2; done; sleep {SECONDS_AT_LEAST}; echo {done}"
        job_id = self.submit(script, where, **options)
        job = ContainerJob(job_id, gate, self.engine) if inside else GatedJob(job_id, gate)
        if wait_for_begin:
            self.wait_for_line(job.id, begun)
        return job

    def job(self, job_id: str) -> dict[str, Any]:
        return dict(self.customer.api(f"jobs/{job_id}"))

    def log_of(self, job_id: str) -> list[str]:
        return str(self.customer.api(f"jobs/{job_id}/log")["text"]).splitlines()

    def wait_for_line(self, job_id: str, line: str) -> None:
        def said() -> bool:
            found = line in self.log_of(job_id)
            job = None if found else self.job(job_id)
            assert job is None or job["status"] not in OVER[1:], job
            return found

        self._wait(said, f"the log says {line!r}", job_id)

    def ended(self, job_id: str) -> dict[str, Any]:
        """The job once it is over. A web server that is starting again is waited for."""

        def over() -> dict[str, Any] | None:
            try:
                found = self.job(job_id)
            except (NotSeen, httpx.TransportError):
                return None
            return found if found["status"] in OVER else None

        return self._wait(over, "the job ends", job_id)

    def succeeded(self, *jobs: GatedJob) -> None:
        """Each job ended once, by itself, and its log is whole."""
        for job in jobs:
            ended = self.ended(job.id)
            (attempt,) = ended["attempts"]
            assert (ended["status"], attempt["exit_code"]) == ("succeeded", 0), ended
            self.wait_for_line(job.id, self.LOG[-1])
            assert self.log_of(job.id) == list(self.LOG)

    def _wait(self, condition: Callable[[], Found], what: str, job_id: str) -> Found:
        try:
            return wait(condition, what)
        except AssertionError as error:
            error.add_note(f"{self.customer.http.get(f'/api/v1/jobs/{job_id}').text}\n{self.started.journals()}")
            raise

    def charged_once(self, before: dict[str, int], *jobs: GatedJob) -> None:
        """Each job cost its seconds at its rate, once; nothing else left the balance, nothing is held any more, and the
        provider has the rest of the charge after the fee."""

        ids = [job.id for job in jobs]
        open_ones = Rental.objects.filter(attempt__job__in=ids, settled_at__isnull=True)
        wait(lambda: not open_ones.exists(), "the rentals are settled")
        assert self.balance()["held_micro"] == 0
        total = 0
        for job in jobs:
            (told,) = self.job(job.id)["attempts"]
            assert told["charged_micro"] == told["rate_micro"] * told["billed_seconds"] // 3600 > 0
            assert told["credited_micro"] == 0
            total += told["charged_micro"]
            rental = Attempt.objects.get(job=job.id).rental
            earned = EarningLine.objects.filter(rental_id=rental.pk).aggregate(sum=Sum("amount_micro"))["sum"]
            share = told["charged_micro"] * (10_000 - rental.fee_bps) / 10_000
            assert abs(earned - share) <= rental.charges.count()  # each charge is split in whole micros
        assert before["balance_micro"] - self.balance()["balance_micro"] == total
        assert check_all() == []

    # Behind the doors

    @property
    def now(self) -> datetime:
        """The platform's present."""
        return datetime.now(UTC) + timedelta(seconds=self.ahead)

    def step(self, *, without: Machine | None = None) -> None:
        """Move the platform's time on, let every host but one be heard, and let the sweeps look."""
        assert self.clock is not None
        self.ahead += STEP_SECONDS
        self.clock.write_text(str(self.ahead))
        since = self.now
        here = MachineHealth.objects.exclude(state="offline").exclude(machine=without)
        hosts = [str(pk) for pk in here.values_list("pk", flat=True)]
        for host in hosts:
            self.valkey.publish(f"bell:machine-{host.replace('-', '')}", "ring")
        wait(lambda: self._heard(hosts, since), "every host is heard")
        for name in ("reliability.offline_sweep", "marketplace.attempts_sweep"):
            self.jobs.send_task(name, queue="sweep")
        wait(lambda: PlatformPulse.objects.get().swept_at >= since, "the sweep has looked")

    def until(self, condition: Callable[[], bool], *, without: Machine | None = None, steps: int = 60) -> None:
        """Move time on until the condition holds."""
        for _ in range(steps):
            if condition():
                return
            self.step(without=without)
        raise AssertionError(f"not within {steps} steps")

    def _heard(self, hosts: list[str], since: datetime) -> bool:
        seen = self.valkey.hmget(live.SEEN_KEY, hosts)
        return all(text is None or datetime.fromisoformat(json.loads(text)["at"]) >= since for text in seen)


@contextmanager
def seen_from_inside(started: Started, blocker: Any) -> Iterator[None]:
    """Our models, and the invariants, look into that marketplace's database and at its chain. To read only."""
    entry = connections["default"]
    before = dict(entry.settings_dict)
    with blocker.unblock():
        entry.close()
        entry.settings_dict.update(started.database)
        try:
            with override_settings(**_chain_settings(started)):
                yield
        finally:
            entry.close()
            entry.settings_dict.update(before)


def _chain_settings(started: Started) -> dict[str, str]:
    rpc_url = Guide.of(None, started.folder).rpc_url
    with LocalnetControl(rpc_url) as control:
        facts = control.facts()
    return {
        "SOLANA_RPC_URL": rpc_url,
        "SOLANA_SECOND_RPC_URL": rpc_url,
        "SOLANA_GENESIS_HASH": facts["genesis_hash"],
        "SOLANA_USDC_MINT": facts["mint"],
        "SOLANA_VAULT_OWNER": facts["vault_owner"],
        "SOLANA_HOT_WALLET": facts["hot_wallet"],
    }
