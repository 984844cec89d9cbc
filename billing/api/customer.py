"""A customer's money going back, and payments that are claimed, for programs. Withdrawal wallets are set on the site only."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.models import User
from accounts.selectors import party_of
from billing import services
from billing.api.public import CURSOR
from billing.api.serializers import DepositSerializer
from billing.models import Payout
from billing.selectors import payouts_page
from billing.selectors.deposits import claim_of, claims_of
from billing.selectors.withdrawals import withdrawal_terms
from core import clock
from core.errors import NotFound


class WithdrawalSerializer(serializers.Serializer[Any]):
    """``amount_micro`` reaches the wallet; ``fee_micro`` left the balance besides. ``signature`` once it is final."""

    id = serializers.UUIDField()
    amount_micro = serializers.IntegerField()
    fee_micro = serializers.IntegerField()
    address = serializers.CharField()
    status = serializers.CharField()
    created_at = serializers.DateTimeField()
    settled_at = serializers.DateTimeField(allow_null=True)
    signature = serializers.CharField()
    link = serializers.CharField()


class WithdrawalPageSerializer(serializers.Serializer[Any]):
    """What can be withdrawn and on what terms, and a page of withdrawals, the newest first."""

    available_micro = serializers.IntegerField()
    minimum_micro = serializers.IntegerField()
    fee_micro = serializers.IntegerField()
    wallet = serializers.CharField(allow_null=True)
    usable_from = serializers.DateTimeField(allow_null=True)
    withdrawals = WithdrawalSerializer(many=True)
    next_cursor = serializers.CharField(allow_null=True)


class WithdrawalRequestSerializer(serializers.Serializer[Any]):
    """``amount_micro`` leaves the balance, fee included. ``request_key``: your own UUID; sent twice, it is one withdrawal."""

    amount_micro = serializers.IntegerField()
    request_key = serializers.UUIDField()


class ClaimSerializer(serializers.Serializer[Any]):
    """A claim on a payment that named nobody. ``text`` is to be signed by the wallet until ``expires_at``."""

    id = serializers.UUIDField()
    kind = serializers.CharField()
    transaction = serializers.CharField(source="signature")
    state = serializers.CharField()
    text = serializers.CharField()
    expires_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()


class ClaimRequestSerializer(serializers.Serializer[Any]):
    """Either ``address``, the wallet that paid and that will sign, or ``evidence`` for what an exchange sent."""

    transaction = serializers.CharField(max_length=100)
    address = serializers.CharField(max_length=64, required=False, default="")
    evidence = serializers.CharField(max_length=2_000, required=False, default="")


class ProofSerializer(serializers.Serializer[Any]):
    """The wallet's signature of the claim's text, base58."""

    proof = serializers.CharField(max_length=128)


class WithdrawalsView(APIView):
    @extend_schema(
        operation_id="billing_withdrawals", parameters=[CURSOR], responses=WithdrawalPageSerializer, methods=["GET"]
    )
    def get(self, request: Request) -> Response:
        """What you can withdraw, and your withdrawals, the newest first, 25 a page."""
        party = party_of(cast(User, request.user))
        terms = withdrawal_terms(party, clock.now())
        rows, cursor = payouts_page(party, cursor=request.query_params.get("cursor", ""), withdrawals=True)
        body = {
            "available_micro": terms.available_micro,
            "minimum_micro": terms.minimum_micro,
            "fee_micro": terms.fee_micro,
            "wallet": terms.wallet.address if terms.wallet else None,
            "usable_from": terms.wallet.usable_from if terms.wallet else None,
            "withdrawals": rows,
            "next_cursor": cursor,
        }
        return Response(WithdrawalPageSerializer(body).data)

    @extend_schema(
        operation_id="billing_withdrawal_request",
        request=WithdrawalRequestSerializer,
        responses={201: WithdrawalSerializer},
        methods=["POST"],
    )
    def post(self, request: Request) -> Response:
        """Take unspent money back to your proven wallet. Two of our people release it."""
        given = WithdrawalRequestSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        party, now = party_of(cast(User, request.user)), clock.now()
        payout = services.withdrawal_request(party=party, now=now, **given.validated_data)
        return Response(_withdrawal(payout), status=201)


class WithdrawalCancelView(APIView):
    @extend_schema(operation_id="billing_withdrawal_cancel", request=None, responses=WithdrawalSerializer)
    def post(self, request: Request, payout_id: UUID) -> Response:
        """Cancel a withdrawal that is not on its way yet; all of it, the fee included, is back on your balance."""
        actor = cast(User, request.user)
        payout = services.withdrawal_cancel(party=party_of(actor), payout_id=payout_id, actor=actor, now=clock.now())
        return Response(_withdrawal(payout))


class ClaimsView(APIView):
    @extend_schema(operation_id="billing_claims", responses=ClaimSerializer(many=True), methods=["GET"])
    def get(self, request: Request) -> Response:
        """Your latest claims on payments that named nobody."""
        return Response(ClaimSerializer(claims_of(party_of(cast(User, request.user))), many=True).data)

    @extend_schema(
        operation_id="billing_claim_open",
        request=ClaimRequestSerializer,
        responses={201: ClaimSerializer},
        methods=["POST"],
    )
    def post(self, request: Request) -> Response:
        """Claim a payment: with the sending wallet (sign the text and send it as proof), or with evidence for people."""
        given = ClaimRequestSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        found = given.validated_data
        party, now = party_of(cast(User, request.user)), clock.now()
        if found["evidence"]:
            claim = services.claim_evidence_open(
                party=party, signature=found["transaction"], evidence=found["evidence"], now=now
            )
        else:
            claim = services.claim_wallet_open(
                party=party, signature=found["transaction"], address=found["address"], now=now
            )
        return Response(ClaimSerializer(claim).data, status=201)


class ClaimProofView(APIView):
    @extend_schema(operation_id="billing_claim_prove", request=ProofSerializer, responses=DepositSerializer)
    def post(self, request: Request, claim_id: UUID) -> Response:
        """The wallet's signature of the text. Right: the payment is on your balance. Right or wrong, the text is used up."""
        if claim_of(party_of(cast(User, request.user)), claim_id) is None:
            raise NotFound("There is no such claim.")
        given = ProofSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        party = party_of(cast(User, request.user))
        deposit = services.claim_wallet_prove(
            party=party, claim_id=claim_id, proof=given.validated_data["proof"], now=clock.now()
        )
        return Response(DepositSerializer(deposit).data)


def _withdrawal(payout: Payout) -> dict[str, Any]:
    """One that is not settled: nobody has its signature yet."""
    body = {
        "id": payout.pk,
        "amount_micro": payout.amount_micro,
        "fee_micro": payout.fee_micro,
        "address": payout.address,
        "status": payout.status,
        "created_at": payout.created_at,
        "settled_at": payout.settled_at,
        "signature": "",
        "link": "",
    }
    return WithdrawalSerializer(body).data
