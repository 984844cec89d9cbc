from __future__ import annotations

from typing import Any

from rest_framework import serializers


class BalanceSerializer(serializers.Serializer):
    """Micro-USDC (10⁻⁶ USDC)."""

    balance_micro = serializers.IntegerField()
    held_micro = serializers.IntegerField()
    available_micro = serializers.IntegerField()


class DepositSerializer(serializers.Serializer):
    signature = serializers.CharField()
    amount_micro = serializers.IntegerField()
    state = serializers.CharField()
    created_at = serializers.DateTimeField()


class DepositIntentSerializer(serializers.Serializer):
    """A payment to make: ``link`` is a Solana Pay transfer request; ``deposits`` is what has arrived by it."""

    id = serializers.UUIDField()
    reference = serializers.CharField()
    memo = serializers.CharField()
    amount_micro = serializers.IntegerField(allow_null=True)
    link = serializers.CharField()
    deposits = DepositSerializer(many=True)


class DepositRequestSerializer(serializers.Serializer):
    """``amount_micro`` null or absent: the payer's wallet decides."""

    amount_micro = serializers.IntegerField(allow_null=True, required=False, default=None)


class PayoutSerializer(serializers.Serializer):
    """``rail`` is usdc or bank. By bank: ``amount_cents`` of ``currency``, the ``reference`` on the payee's statement, and
    the business day it is ``expected_on``; its address is masked. A payout that was paid and came back is ``returned``."""

    id = serializers.UUIDField()
    period_start = serializers.DateField()
    period_end = serializers.DateField()
    amount_micro = serializers.IntegerField()
    address = serializers.CharField()
    status = serializers.CharField()
    created_at = serializers.DateTimeField()
    settled_at = serializers.DateTimeField(allow_null=True)
    signature = serializers.CharField()
    link = serializers.CharField()
    statement_id = serializers.UUIDField(allow_null=True)
    rail = serializers.CharField()
    amount_cents = serializers.IntegerField(allow_null=True)
    currency = serializers.CharField()
    reference = serializers.CharField()
    expected_on = serializers.DateField(allow_null=True)
    returned = serializers.BooleanField()


class PayoutsSerializer(serializers.Serializer):
    """A provider's money: pending, payable, on its way, and the payouts, newest first."""

    pending_micro = serializers.IntegerField()
    payable_micro = serializers.IntegerField()
    in_flight_micro = serializers.IntegerField()
    next_payout_on = serializers.DateField()
    why_not_yet = serializers.ListField(child=serializers.CharField())
    payouts = PayoutSerializer(many=True)


class DocumentSerializer(serializers.Serializer[Any]):
    """A receipt or statement. ``period_end`` is the first day after the period (UTC); ``files`` maps formats to paths."""

    id = serializers.UUIDField()
    number = serializers.CharField()
    kind = serializers.CharField()
    issued_at = serializers.DateTimeField()
    period_start = serializers.DateField(allow_null=True)
    period_end = serializers.DateField(allow_null=True)
    total_micro = serializers.IntegerField()
    payout_id = serializers.UUIDField(allow_null=True)
    files = serializers.DictField(child=serializers.CharField())


class DocumentPageSerializer(serializers.Serializer[Any]):
    """One page; ``next_cursor`` is null on the last one."""

    documents = DocumentSerializer(many=True)
    next_cursor = serializers.CharField(allow_null=True)


class DocumentDetailSerializer(DocumentSerializer):
    """``lines`` have ``kind`` and ``amount_micro`` always, and add up to ``total_micro``; ``sha256`` is of the facts."""

    lines = serializers.ListField(child=serializers.DictField())
    sha256 = serializers.CharField()
