"""What protects a customer's money, for programs: spend limits and disputes."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.models import Party, User
from accounts.reauthentication import identity_confirmed
from accounts.selectors import party_of
from billing.api.public import CURSOR
from billing.selectors import spending_of
from billing.services import spend_limits_set
from core import clock
from core.errors import NotFound
from marketplace import services
from marketplace.models import Dispute
from marketplace.models.rental import HOLD_PREFIX
from marketplace.selectors import disputes_of, job_of


class SpendingSerializer(serializers.Serializer[Any]):
    """Micro-USDC. ``spent_micro`` since ``since``; ``set_aside_micro`` for running jobs; ``limit_micro`` null: no limit, and
    then ``room_micro`` is null too."""

    period = serializers.CharField(help_text="day (any 24 hours) or month (calendar month, UTC)")
    since = serializers.DateTimeField()
    limit_micro = serializers.IntegerField(allow_null=True)
    spent_micro = serializers.IntegerField()
    set_aside_micro = serializers.IntegerField()
    room_micro = serializers.IntegerField(allow_null=True)


class SpendLimitsSerializer(serializers.Serializer[Any]):
    """A limit that is left out stays as it is; null lifts it."""

    day = serializers.IntegerField(allow_null=True, required=False, help_text="micro-USDC")
    month = serializers.IntegerField(allow_null=True, required=False, help_text="micro-USDC")


class DisputeRequestSerializer(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(choices=Dispute.Kind.choices)
    words = serializers.CharField(max_length=2000)


class DisputeSerializer(serializers.ModelSerializer[Dispute]):
    """``refund_micro`` null: not decided yet; 0: refused."""

    job = serializers.UUIDField(source="attempt.job_id")
    attempt = serializers.IntegerField(source="attempt.number")

    class Meta:
        model = Dispute
        fields = (
            *("id", "job", "attempt", "kind", "words", "disputed_micro", "created_at"),
            *("status", "decided_at", "reason", "refund_micro"),
        )


class DisputePageSerializer(serializers.Serializer[Any]):
    disputes = DisputeSerializer(many=True)
    next_cursor = serializers.CharField(allow_null=True)


def _party(request: Request) -> Party:
    return party_of(cast(User, request.user))


class SpendLimitsView(APIView):
    @extend_schema(operation_id="billing_limits", responses=SpendingSerializer(many=True))
    def get(self, request: Request) -> Response:
        """What you spent and have set aside in both periods, and your limits."""
        found = spending_of(_party(request), clock.now(), holds=HOLD_PREFIX)
        return Response(SpendingSerializer(found, many=True).data)

    @extend_schema(
        operation_id="billing_limits_set", request=SpendLimitsSerializer, responses=SpendingSerializer(many=True)
    )
    def patch(self, request: Request) -> Response:
        """Set your limits. To raise or lift one, the log-in must have been repeated a moment ago (403
        ``reauthentication_required``)."""
        given = SpendLimitsSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        spend_limits_set(
            party=_party(request),
            limits=given.validated_data,
            actor=cast(User, request.user),
            reauthenticated=identity_confirmed(request._request),
            now=clock.now(),
        )
        return self.get(request)


class DisputesView(APIView):
    @extend_schema(operation_id="billing_disputes", parameters=[CURSOR], responses=DisputePageSerializer)
    def get(self, request: Request) -> Response:
        """Your disputes, the newest first, 25 a page."""
        rows, cursor = disputes_of(_party(request), cursor=request.query_params.get("cursor", ""))
        return Response(DisputePageSerializer({"disputes": rows, "next_cursor": cursor}).data)


class DisputeView(APIView):
    @extend_schema(operation_id="job_dispute", request=DisputeRequestSerializer, responses={201: DisputeSerializer})
    def post(self, request: Request, job_id: UUID, number: int) -> Response:
        """Dispute what an attempt has cost, within 72 hours of its end. Once per attempt; the same again is the same."""
        job = job_of(customer=_party(request), job_id=job_id)
        attempt = next((each for each in job.attempts.all() if each.number == number), None)
        if attempt is None:
            raise NotFound("There is no such attempt.")
        given = DisputeRequestSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        dispute = services.dispute_open(
            attempt=attempt,
            customer=_party(request),
            actor=cast(User, request.user),
            now=clock.now(),
            **given.validated_data,
        )
        return Response(DisputeSerializer(dispute).data, status=201)
