from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.db import transaction
from django.db.models import Max

from accounts.models import Party, User
from billing.selectors import balance_of
from billing.services import spend_check
from core import jobs
from core.errors import Conflict, Denied, InsufficientFunds, Invalid
from core.money import format_usdc
from marketplace import jobspec, pricing
from marketplace.jobsecrets import job_seal
from marketplace.jobspec import JobSpec
from marketplace.models import Job, Listing
from marketplace.models.rental import HOLD_PREFIX
from providers.models import GpuModel
from providers.places import COUNTRIES, REGIONS


def job_submit(*, customer: Party, spec: JobSpec, actor: User | None, now: datetime) -> Job:
    """Queue a job. Nothing is reserved yet, but the balance must cover its first hour at the price ceiling.

    Raises Invalid (fields of JobSpec, ``gpu_model``, ``listing``, ``region``, ``country``), Conflict ``rate_changed``,
    InsufficientFunds (field ``balance``; SpendLimitReached: field ``spend_limit``), Denied (a suspended or closed party).
    """
    return _submit(customer, spec, actor, now, rerun_of=None)


def job_rerun(
    *,
    job: Job,
    actor: User | None,
    now: datetime,
    secrets: Mapping[str, str] | None = None,
    registry_username: str = "",
    registry_password: str = "",
) -> Job:
    """Queue the same job again, at the same price ceiling. Its secrets, and the login of a private image, are gone: they are
    to be given anew.

    Raises what job_submit raises, Invalid where one of them is missing, and Conflict while the job has not ended.
    """
    secrets = secrets or {}
    if not job.ended:
        raise Conflict("The job has not ended yet.")
    if job.with_secrets and not secrets:
        raise Invalid.field("secrets", found="", allowed="the secrets of the job, which were deleted when it ended")
    if job.private_image and not registry_username:
        raise Invalid.field("registry_username", found="", allowed="a login at the registry of the private image")
    spec = JobSpec(
        image=job.image,
        command=tuple(job.command),
        environment=job.environment,
        secrets=secrets,
        registry_username=registry_username,
        registry_password=registry_password,
        name=job.name,
        gpu_count=job.gpu_count,
        listing_id=job.listing_id,
        model_slug=job.gpu_model.slug if job.gpu_model and job.listing_id is None else None,
        max_rate_micro=job.max_rate_micro,
        min_reliability=job.min_reliability,
        region=job.region,
        country=job.country,
        disk_gb=job.disk_gb,
        time_limit_s=job.time_limit_s,
        disconnect_grace_s=job.disconnect_grace_s,
        max_attempts=job.max_attempts,
    )
    return _submit(job.customer, spec, actor, now, rerun_of=job)


def _submit(customer: Party, spec: JobSpec, actor: User | None, now: datetime, *, rerun_of: Job | None) -> Job:
    spec = jobspec.check(spec)
    assert spec.max_rate_micro is not None  # checked
    if customer.status != Party.Status.ACTIVE:
        raise Denied(f"This account is {customer.status}; it cannot start jobs.")
    listing = _listing(spec, customer)
    model = listing.gpu_model if listing else _model(spec)
    if listing is None:
        _places(spec)
        _count(spec, model)
    _funds(customer, listing.rate_micro if listing else None, spec, now)
    with transaction.atomic():
        job = Job.objects.create(
            customer=customer,
            submitted_by=actor,
            name=spec.name,
            image=spec.image,
            command=list(spec.command),
            environment=dict(spec.environment),
            secrets=job_seal(
                image=spec.image,
                environment=spec.secrets,
                username=spec.registry_username,
                password=spec.registry_password,
            ),
            private_image=bool(spec.registry_username),
            with_secrets=bool(spec.secrets),
            gpu_count=spec.gpu_count,
            gpu_model=model,
            listing=listing,
            max_rate_micro=spec.max_rate_micro,
            min_reliability=spec.min_reliability,
            region=spec.region,
            country=spec.country,
            disk_gb=spec.disk_gb,
            time_limit_s=spec.time_limit_s,
            disconnect_grace_s=spec.disconnect_grace_s,
            max_attempts=spec.max_attempts,
            rerun_of=rerun_of,
            queued_at=now,
            created_at=now,
        )
        jobs.enqueue("marketplace.jobs_place")
    return job


def _listing(spec: JobSpec, customer: Party) -> Listing | None:
    if spec.listing_id is None:
        return None
    rows = Listing.objects.select_related("gpu_model", "provider").filter(pk=spec.listing_id, visible=True)
    listing = rows.first()
    if listing is None or listing.rate_micro is None:
        raise Invalid.field("listing", found=str(spec.listing_id), allowed="a listing that is offered now")
    if listing.provider.party_id == customer.pk:
        raise Invalid.field("listing", found="a machine of your own", allowed="other providers' machines")
    if spec.gpu_count > listing.gpus_total:
        raise Invalid.field(
            "gpu_count", found=spec.gpu_count, allowed=f"1 to {listing.gpus_total}, as this machine has"
        )
    assert spec.max_rate_micro is not None
    if listing.rate_micro > spec.max_rate_micro:
        found, seen = format_usdc(listing.rate_micro), format_usdc(spec.max_rate_micro)
        raise Conflict(
            f"The price is now {found} USDC per GPU-hour, above the {seen} you saw.",
            code="rate_changed",
            fields={"max_rate": f"Found {found}; you accepted {seen}. Look at the listing again."},
        )
    return listing


def _model(spec: JobSpec) -> GpuModel | None:
    if not spec.model_slug:
        return None
    model = GpuModel.objects.filter(slug=spec.model_slug).first()
    if model is None:
        slugs = ", ".join(GpuModel.objects.order_by("slug").values_list("slug", flat=True))
        raise Invalid.field("gpu_model", found=spec.model_slug[:40], allowed=slugs)
    return model


def _places(spec: JobSpec) -> None:
    if spec.region and spec.region not in REGIONS:
        raise Invalid.field("region", found=spec.region[:40], allowed=", ".join(REGIONS))
    if spec.country and spec.country not in COUNTRIES:
        raise Invalid.field("country", found=spec.country[:8], allowed="a two-letter code of a country we serve")


def _count(spec: JobSpec, model: GpuModel | None) -> None:
    """A count that no machine of the market has would wait a day for nothing. While nobody offers, everybody may wait."""
    machines = Listing.objects.filter(gpus_total__gt=0)
    if model is not None:
        machines = machines.filter(gpu_model=model)
    largest = machines.aggregate(most=Max("gpus_total"))["most"]
    if largest is not None and spec.gpu_count > largest:
        allowed = f"1 to {largest}: the largest machine offered has {largest}"
        raise Invalid.field("gpu_count", found=spec.gpu_count, allowed=allowed)


def _funds(customer: Party, rate_micro: int | None, spec: JobSpec, now: datetime) -> None:
    rate = spec.max_rate_micro if rate_micro is None else rate_micro
    assert rate is not None
    needed = pricing.hold_micro(rate_micro=rate, gpus=spec.gpu_count)
    available = balance_of(customer).available_micro
    if available < needed:
        raise InsufficientFunds(
            f"An hour of this job costs {format_usdc(needed)} USDC; your available balance is {format_usdc(available)}.",
            fields={"balance": f"Found {format_usdc(available)} USDC; needed: {format_usdc(needed)} USDC."},
        )
    spend_check(party=customer, holds=HOLD_PREFIX, now=now, more_micro=needed)
