"""Money for programs: a customer's balance, history and deposits; a provider's payouts. Wallets are set on the site only."""

from __future__ import annotations

from typing import cast
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.models import Party, User
from accounts.selectors import party_of
from billing import services
from billing.api.serializers import (
    BalanceSerializer,
    DepositIntentSerializer,
    DepositRequestSerializer,
    HistoryPageSerializer,
    PayoutsSerializer,
)
from billing.models import DepositIntent
from billing.selectors import (
    balance_of,
    customer_history,
    in_flight_of,
    next_payout_on,
    payable_of,
    payouts_of,
    pending_of,
    why_not_yet,
)
from billing.selectors.deposits import deposits_of_intent, intent_of
from core import clock
from core.errors import NotFound


def _party(request: Request) -> Party:
    return party_of(cast(User, request.user))


def _intent_body(intent: DepositIntent) -> dict[str, object]:
    body = {
        "id": intent.pk,
        "reference": intent.reference,
        "memo": intent.memo,
        "amount_micro": intent.amount_micro,
        "link": services.deposit_link(intent),
        "deposits": deposits_of_intent(intent),
    }
    return DepositIntentSerializer(body).data


class BalanceView(APIView):
    @extend_schema(operation_id="billing_balance", responses=BalanceSerializer)
    def get(self, request: Request) -> Response:
        """Your balance, what is set aside for running jobs, and what is left."""
        return Response(BalanceSerializer(balance_of(_party(request))).data)


class HistoryView(APIView):
    @extend_schema(
        operation_id="billing_history",
        parameters=[OpenApiParameter("cursor", str, description="The next_cursor of an earlier answer.")],
        responses=HistoryPageSerializer,
    )
    def get(self, request: Request) -> Response:
        """Changes of your balance, the newest first, 25 a page."""
        rows, cursor = customer_history(_party(request), cursor=request.query_params.get("cursor", ""))
        return Response(HistoryPageSerializer({"history": rows, "next_cursor": cursor}).data)


class DepositsView(APIView):
    @extend_schema(
        operation_id="billing_deposit_open", request=DepositRequestSerializer, responses={201: DepositIntentSerializer}
    )
    def post(self, request: Request) -> Response:
        """Open a payment: a fresh reference and a Solana Pay link."""
        given = DepositRequestSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        amount_micro = given.validated_data["amount_micro"]
        intent = services.deposit_intent_open(party=_party(request), amount_micro=amount_micro, now=clock.now())
        return Response(_intent_body(intent), status=201)


class DepositView(APIView):
    @extend_schema(operation_id="billing_deposit", responses=DepositIntentSerializer)
    def get(self, request: Request, intent_id: UUID) -> Response:
        """One of your payments and what has arrived by it."""
        intent = intent_of(_party(request), intent_id)
        if intent is None:
            raise NotFound("There is no such payment.")
        return Response(_intent_body(intent))


class PayoutsView(APIView):
    @extend_schema(operation_id="billing_payouts", responses=PayoutsSerializer)
    def get(self, request: Request) -> Response:
        """What you have earned and not been paid yet, why not, and your payouts."""
        party, now = _party(request), clock.now()
        body = {
            "pending_micro": pending_of(party),
            "payable_micro": payable_of(party),
            "in_flight_micro": in_flight_of(party),
            "next_payout_on": next_payout_on(party, now),
            "why_not_yet": why_not_yet(party, now),
            "payouts": payouts_of(party),
        }
        return Response(PayoutsSerializer(body).data)
