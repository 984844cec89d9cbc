from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from accounts.models import Party
from core import clock

USDC = "USDC"
SOL = "SOL"


class Account(models.Model):
    """One line of the books. A positive balance is what we owe its owner (or earned); a negative one is what we hold.

    So a customer's 10 USDC are +10 on ``customer`` and −10 on ``deposits_clearing`` (the vault), and a paid payout is −x
    on ``payout_in_flight`` and +x on ``treasury`` (the hot wallet has x less). Everything sums to zero per asset.

    ``bank`` is to euros what ``treasury`` is to USDC; what is changed goes through ``trading``, which has an account per
    asset, so that every asset still adds up to zero by itself.

    Amounts count the asset's smallest unit: micro-USDC, lamports, euro cents. ``balance`` and ``held`` are kept for ``live``
    accounts only (those that authorise something); the others are sums, so that nobody queues for their row.
    ``balance`` is written by a trigger on postings and by nothing else.
    """

    class Kind(models.TextChoices):
        CUSTOMER = "customer", _("Customer balance")
        PROVIDER_PENDING = "provider_pending", _("Provider earnings, pending")
        PROVIDER_PAYABLE = "provider_payable", _("Provider earnings, payable")
        PAYOUT_IN_FLIGHT = "payout_in_flight", _("Payouts in flight")
        PLATFORM_FEE = "platform_fee", _("Platform fees")
        DEPOSITS_CLEARING = "deposits_clearing", _("Deposits (vault)")
        TREASURY = "treasury", _("Treasury (hot wallet)")
        NETWORK_FEE = "network_fee", _("Network fees")
        RENT = "rent", _("Token account rent")
        SUSPENSE = "suspense", _("Suspense")
        CAPITAL = "capital", _("Operator's capital in the hot wallet")
        TRADING = "trading", _("Currency trading")
        BANK = "bank", _("Bank account")
        BANK_CHARGES = "bank_charges", _("Bank charges")
        ADJUSTMENTS = "adjustments", _("Adjustments by hand")

    LIVE_KINDS = (Kind.CUSTOMER, Kind.PROVIDER_PAYABLE, Kind.PAYOUT_IN_FLIGHT)

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey(Party, on_delete=models.PROTECT, null=True, related_name="ledger_accounts")
    kind = models.CharField(max_length=24, choices=Kind)
    asset = models.CharField(max_length=8, default=USDC)
    live = models.BooleanField()
    min_balance = models.BigIntegerField(default=0)
    balance = models.BigIntegerField(default=0)
    held = models.BigIntegerField(default=0)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "kind", "asset"], name="billing_account_of_party", condition=Q(owner__isnull=False)
            ),
            models.UniqueConstraint(
                fields=["kind", "asset"], name="billing_account_of_house", condition=Q(owner__isnull=True)
            ),
            models.CheckConstraint(condition=Q(held__gte=0), name="billing_account_held_not_negative"),
            models.CheckConstraint(
                condition=Q(live=True) | Q(balance=0, held=0), name="billing_account_only_live_has_balance"
            ),
            # Money in flight was reserved first; less than nothing cannot be on its way.
            models.CheckConstraint(
                condition=~Q(kind="payout_in_flight") | Q(balance__gte=0), name="billing_account_in_flight_not_negative"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.asset} {self.owner_id or ''}".strip()
