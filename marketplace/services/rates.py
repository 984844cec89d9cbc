from __future__ import annotations

from datetime import datetime

from django.db import transaction

from accounts.models import User
from core.errors import Invalid, NotFound
from core.locks import lock_name
from marketplace import pricing
from marketplace.models import Listing, Rate
from marketplace.selectors.rates import rate_current
from marketplace.services.listings import listings_refresh
from providers.models import GpuModel, Machine, Provider


def rate_set(
    *,
    provider: Provider,
    gpu_model: GpuModel,
    rate_micro: int | None,
    actor: User | None,
    now: datetime,
    machine: Machine | None = None,
) -> Rate:
    """Ask ``rate_micro`` (micro-USDC per GPU-hour) for a model from now on, on all machines or on one.

    New rentals pay it at once; running ones keep theirs. None takes a machine's exception back. The same rate again
    changes nothing. Raises Invalid (``rate``) or NotFound (a machine of somebody else).
    """
    if machine is not None and machine.provider_id != provider.pk:
        raise NotFound("There is no such machine.")
    if rate_micro is None and machine is None:
        raise Invalid.field("rate", found="nothing", allowed="0.0001 to 1,000 USDC per GPU-hour")
    if rate_micro is not None:
        pricing.rate_check(rate_micro)
    with transaction.atomic():
        lock_name(f"rate:{provider.pk}:{gpu_model.pk}")
        machine_id = machine.pk if machine else None
        current = rate_current(provider_id=provider.pk, gpu_model_id=gpu_model.pk, machine_id=machine_id)
        if current is not None and current.rate_micro == rate_micro:
            return current
        rate = Rate.objects.create(
            provider=provider,
            gpu_model=gpu_model,
            machine=machine,
            rate_micro=rate_micro,
            set_at=now,
            set_by=actor,
            created_at=now,
        )
        touched = Listing.objects.filter(provider=provider, gpu_model=gpu_model)
        if machine is not None:
            touched = touched.filter(machine=machine)
        for each in touched.order_by("machine_id").values_list("machine_id", flat=True):
            listings_refresh(machine_id=each, now=now)
    return rate
