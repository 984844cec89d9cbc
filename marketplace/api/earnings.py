"""A provider's earnings for programs, and a customer's history with the jobs in it."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import cast

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.models import Party, User
from accounts.selectors import party_of
from billing.api.public import CURSOR, documents_answer
from billing.api.serializers import DocumentPageSerializer
from billing.periods import day_starts, period_current
from billing.selectors import (
    customer_history,
    cycle_of,
    earnings_by_day,
    earnings_maturing,
    earnings_of,
    in_flight_of,
    minimum_of,
    next_payout_on,
    payable_of,
    payouts_page,
    pending_of,
    why_not_yet,
)
from billing.selectors.documents import PAYOUT_STATEMENTS
from core import clock
from core.errors import Invalid, NotFound
from marketplace.api.earnings_serializers import EarningsSerializer, HistoryPageSerializer, PayoutPageSerializer
from marketplace.forms import RANGE_DAYS_MAX
from marketplace.selectors.factors import accruing_of, factors_of
from marketplace.selectors.history import history_told
from providers.models import Provider
from providers.selectors import provider_of

DAYS_ALLOWED = f"a day after since, at most {RANGE_DAYS_MAX} days"


def _provider(request: Request) -> Provider:
    provider = provider_of(_party(request))
    if provider is None:
        raise NotFound("You are not a provider.")
    return provider


def _party(request: Request) -> Party:
    return party_of(cast(User, request.user))


class EarningsView(APIView):
    @extend_schema(
        operation_id="provider_earnings",
        parameters=[
            OpenApiParameter("since", OpenApiTypes.DATE, description="First UTC day; default: the running period's."),
            OpenApiParameter("until", OpenApiTypes.DATE, description="First UTC day that is not included."),
        ],
        responses=EarningsSerializer,
    )
    def get(self, request: Request) -> Response:
        """What you earned in [since, until) after the fee, per GPU, model and day; what is pending and payable, and why it is
        not paid yet; what moves it."""
        provider, now = _provider(request), clock.now()
        party = provider.party
        kind = cycle_of(party, now.date())
        period = period_current(kind, now.date())
        since, until = days_asked(request, period.start, period.end)
        found = earnings_of(party, since, until)
        accruing_micro, running = accruing_of(provider, now=now)
        body = {
            "since": since.date(),
            "until": until.date(),
            "total_micro": found.total_micro,
            "by_gpu": found.by_gpu,
            "by_model": found.by_model,
            "by_day": [
                {"day": day.date(), "amount_micro": micro} for day, micro in earnings_by_day(party, since, until)
            ],
            "cycle": kind,
            "period_start": period.start,
            "period_end": period.end,
            "accruing_micro": accruing_micro,
            "jobs_running": running,
            "pending_micro": pending_of(party),
            "maturing": earnings_maturing(party),
            "payable_micro": payable_of(party),
            "minimum_micro": minimum_of(party, now),
            "in_flight_micro": in_flight_of(party),
            "next_payout_on": next_payout_on(party, now),
            "why_not_yet": why_not_yet(party, now),
            "factors": factors_of(provider, now=now),
        }
        return Response(EarningsSerializer(body).data)


class PayoutsView(APIView):
    @extend_schema(operation_id="provider_payouts", parameters=[CURSOR], responses=PayoutPageSerializer)
    def get(self, request: Request) -> Response:
        """Your payouts, the newest first, 25 a page; signature and link once they are final."""
        rows, cursor = payouts_page(_provider(request).party, cursor=request.query_params.get("cursor", ""))
        return Response(PayoutPageSerializer({"payouts": rows, "next_cursor": cursor}).data)


class StatementsView(APIView):
    @extend_schema(operation_id="provider_statements", parameters=[CURSOR], responses=DocumentPageSerializer)
    def get(self, request: Request) -> Response:
        """The statements of your payouts, the newest first, 25 a page."""
        _provider(request)
        return documents_answer(request, PAYOUT_STATEMENTS)


class HistoryView(APIView):
    @extend_schema(operation_id="billing_history", parameters=[CURSOR], responses=HistoryPageSerializer)
    def get(self, request: Request) -> Response:
        """Changes of your balance, the newest first, 25 a page."""
        rows, cursor = customer_history(_party(request), cursor=request.query_params.get("cursor", ""))
        return Response(HistoryPageSerializer({"history": history_told(rows), "next_cursor": cursor}).data)


def days_asked(request: Request, since: date, until: date) -> tuple[datetime, datetime]:
    """[since, until) of the query as instants, or the defaults. Raises Invalid naming the field."""
    first = _day(request, "since", since)
    last = _day(request, "until", until if first < until else first + timedelta(days=1))
    if not timedelta(0) < last - first <= timedelta(days=RANGE_DAYS_MAX):
        raise Invalid.field("until", found=last.isoformat(), allowed=DAYS_ALLOWED)
    return day_starts(first), day_starts(last)


def _day(request: Request, name: str, default: date) -> date:
    text = request.query_params.get(name, "")
    if not text:
        return default
    try:
        found = date.fromisoformat(text)
    except ValueError:
        raise Invalid.field(name, found=text[:20], allowed="a day such as 2026-11-30") from None
    if not 2020 <= found.year <= 2200:
        raise Invalid.field(name, found=text[:20], allowed="a day from 2020-01-01 to 2200-12-31")
    return found
