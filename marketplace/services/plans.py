"""The plan item of an attempt: what the machine is told to run, within which limits."""

from __future__ import annotations

from agent_protocol.messages.plan import AttemptPlan, JobLimits
from marketplace.logtext import LOG_LIMIT_BYTES
from marketplace.models import Attempt, Job
from providers.models import Gpu, Machine

HOST_SHARE_PERCENT = 90
"""A tenth of memory stays with the host and its agent."""
MEMORY_UNKNOWN_BYTES = 4 * 1024**3
CPUS_UNKNOWN = 1.0
"""Per GPU, where the machine could not say what it has: little enough for any host."""
PIDS = 4096
GB = 1_000_000_000


def attempt_plan(*, attempt: Attempt, job: Job, machine: Machine, gpus: list[Gpu], token: str) -> dict[str, object]:
    """The body for ``providers.plan_put`` (wire: AttemptPlan). Secrets and the login of a registry are not in it:
    the machine collects them (services.attempt_secrets_collect), once."""
    plan = AttemptPlan(
        attempt_id=str(attempt.pk),
        job_id=str(job.pk),
        number=attempt.number,
        token=token,
        desired="run",
        stop_reason=None,
        image=job.image,
        command=tuple(job.command),
        environment=job.environment,
        gpu_uuids=tuple(gpu.uuid for gpu in gpus),
        limits=_limits(job, machine, len(gpus)),
        time_limit_s=job.time_limit_s,
        disconnect_grace_s=job.disconnect_grace_s,
        log_limit_bytes=LOG_LIMIT_BYTES,
        boot_id=attempt.boot_id or None,
        secrets=job.secrets is not None,
        private_image=job.private_image,
    )
    return plan.to_dict()


def _limits(job: Job, machine: Machine, gpus: int) -> JobLimits:
    """Memory and processors in proportion to the GPUs taken, so that neighbours do not starve each other."""
    have = max(Gpu.objects.filter(machine=machine).exclude(status="retired").count(), gpus)
    memory = MEMORY_UNKNOWN_BYTES * gpus
    if machine.ram_bytes is not None:
        memory = machine.ram_bytes * HOST_SHARE_PERCENT // 100 * gpus // have
    cpus = CPUS_UNKNOWN * gpus if machine.cpu_count is None else max(machine.cpu_count * gpus / have, 0.1)
    return JobLimits(
        memory_bytes=max(memory, 1), cpus=cpus, disk_bytes=job.disk_gb * GB, shm_bytes=max(memory // 2, 1), pids=PIDS
    )
