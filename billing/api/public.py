"""Money for programs: a customer's balance and deposits, receipts and statements; a provider's payouts. Wallets are set on the
site only; the history, which names jobs, is marketplace's."""

from __future__ import annotations

from typing import cast
from uuid import UUID

from django.http import HttpResponse
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
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
    DocumentDetailSerializer,
    DocumentPageSerializer,
    PayoutsSerializer,
)
from billing.documents import CSV, FORMATS, PDF
from billing.http import file_response
from billing.models import DepositIntent, Document
from billing.selectors import (
    balance_of,
    in_flight_of,
    next_payout_on,
    payable_of,
    payouts_of,
    pending_of,
    why_not_yet,
)
from billing.selectors.deposits import deposits_of_intent, intent_of
from billing.selectors.documents import document_file, document_of, documents_of, facts_of
from core import clock
from core.errors import NotFound

CURSOR = OpenApiParameter("cursor", str, description="The next_cursor of an earlier answer.")


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


class ReceiptsView(APIView):
    @extend_schema(operation_id="billing_receipts", parameters=[CURSOR], responses=DocumentPageSerializer)
    def get(self, request: Request) -> Response:
        """Receipts of your deposits, the newest first, 25 a page."""
        return documents_answer(request, (Document.Kind.RECEIPT,))


class StatementsView(APIView):
    @extend_schema(operation_id="billing_statements", parameters=[CURSOR], responses=DocumentPageSerializer)
    def get(self, request: Request) -> Response:
        """Your monthly statements, the newest first, 25 a page."""
        return documents_answer(request, (Document.Kind.MONTHLY,))


class DocumentView(APIView):
    @extend_schema(operation_id="billing_document", responses=DocumentDetailSerializer)
    def get(self, request: Request, document_id: UUID) -> Response:
        """One of your receipts or statements with its lines, which add up to its total."""
        found = document_of(_party(request), document_id)
        facts = facts_of(found)
        body = {**document_body(found), "lines": facts["lines"], "sha256": bytes(found.sha256).hex()}
        return Response(DocumentDetailSerializer(body).data)


class DocumentFileView(APIView):
    @extend_schema(
        operation_id="billing_document_file",
        parameters=[OpenApiParameter("form", str, OpenApiParameter.PATH, enum=[PDF, CSV])],
        responses={(200, "application/pdf"): OpenApiTypes.BINARY, (200, "text/csv"): OpenApiTypes.STR},
    )
    def get(self, request: Request, document_id: UUID, form: str) -> HttpResponse:
        """The document as ``pdf`` or, for statements, as ``csv``, in the language of ``Accept-Language``."""
        found = document_of(_party(request), document_id)
        if form not in FORMATS[found.kind]:
            raise NotFound("It does not come in this format.")
        return file_response(document_file(found, form))


def documents_answer(request: Request, kinds: tuple[str, ...]) -> Response:
    """A page of the caller's documents of these kinds."""
    rows, cursor = documents_of(_party(request), kinds, cursor=request.query_params.get("cursor", ""))
    body = {"documents": [document_body(row) for row in rows], "next_cursor": cursor}
    return Response(DocumentPageSerializer(body).data)


def document_body(document: Document) -> dict[str, object]:
    files = {form: reverse("api:billing_document_file", args=[document.pk, form]) for form in FORMATS[document.kind]}
    return {
        "id": document.pk,
        "number": document.label,
        "kind": document.kind,
        "issued_at": document.issued_at,
        "period_start": document.period_start,
        "period_end": document.period_end,
        "total_micro": document.total_micro,
        "payout_id": document.payout_id,
        "files": files,
    }
