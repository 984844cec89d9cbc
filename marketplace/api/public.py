"""The market and a customer's jobs, for programs."""

from __future__ import annotations

import json
from typing import cast
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.models import Party, User
from accounts.selectors import party_of
from core import clock
from core.api.idempotency import respond_once
from core.errors import Invalid
from core.idempotency import Answer
from marketplace import services
from marketplace.api.serializers import (
    JobPageSerializer,
    JobRequestSerializer,
    JobSerializer,
    ListingPageSerializer,
    ListingSerializer,
    LogSerializer,
)
from marketplace.models import Job
from marketplace.selectors import filters_read, job_of, jobs_of, listing_of, listings_search, log_read

FILTERS = ("model", "gpus", "memory_gb", "max_price", "region", "country", "reliability", "tier", "sort", "cursor")
KEY = OpenApiParameter("Idempotency-Key", str, OpenApiParameter.HEADER, description="Makes a repeated request safe.")


def _party(request: Request) -> Party:
    return party_of(cast(User, request.user))


def _job_body(job: Job) -> object:
    """Plain JSON types, as an answer that is stored for replays must be."""
    job = job_of(customer=job.customer, job_id=job.pk)
    return json.loads(JSONRenderer().render(JobSerializer(job, context={"now": clock.now()}).data))


class ListingsView(APIView):
    permission_classes = [AllowAny]

    @extend_schema(
        operation_id="market_listings",
        parameters=[OpenApiParameter(name, str) for name in FILTERS],
        responses=ListingPageSerializer,
    )
    def get(self, request: Request) -> Response:
        """What is offered now, 50 a page. ``gpus`` are free GPUs on one machine; ``max_price`` is USDC per GPU-hour."""
        filters = filters_read(request.query_params)
        page = listings_search(filters, cursor=request.query_params.get("cursor", ""))
        body = {"listings": page.listings, "count": page.count, "next_cursor": page.next_cursor}
        return Response(ListingPageSerializer(body).data)


class ListingView(APIView):
    permission_classes = [AllowAny]

    @extend_schema(operation_id="market_listing", responses=ListingSerializer)
    def get(self, request: Request, listing_id: UUID) -> Response:
        """One listing that is offered now."""
        return Response(ListingSerializer(listing_of(listing_id)).data)


class JobsView(APIView):
    @extend_schema(operation_id="jobs", parameters=[OpenApiParameter("cursor", str)], responses=JobPageSerializer)
    def get(self, request: Request) -> Response:
        """Your jobs, the newest first, 25 a page."""
        rows, cursor = jobs_of(customer=_party(request), cursor=request.query_params.get("cursor", ""))
        return Response(JobPageSerializer({"jobs": rows, "next_cursor": cursor}, context={"now": clock.now()}).data)

    @extend_schema(
        operation_id="job_submit", parameters=[KEY], request=JobRequestSerializer, responses={201: JobSerializer}
    )
    def post(self, request: Request) -> Response:
        """Queue a job. The balance must cover its first hour at ``max_rate_micro``."""
        given = JobRequestSerializer(data=request.data)
        given.is_valid(raise_exception=True)

        def make() -> Answer:
            job = services.job_submit(
                customer=_party(request), spec=given.spec(), actor=cast(User, request.user), now=clock.now()
            )
            return 201, _job_body(job)

        return respond_once(request, route="job_submit", make=make)


class JobView(APIView):
    @extend_schema(operation_id="job", responses=JobSerializer)
    def get(self, request: Request, job_id: UUID) -> Response:
        """One of your jobs."""
        return Response(_job_body(job_of(customer=_party(request), job_id=job_id)))


class JobCancelView(APIView):
    @extend_schema(operation_id="job_cancel", request=None, responses=JobSerializer)
    def post(self, request: Request, job_id: UUID) -> Response:
        """Cancel in whatever state it is. Nothing is charged from now on; twice is once."""
        job = services.job_cancel(
            job=job_of(customer=_party(request), job_id=job_id), actor=cast(User, request.user), now=clock.now()
        )
        return Response(_job_body(job))


class JobLogView(APIView):
    @extend_schema(
        operation_id="job_log",
        parameters=[OpenApiParameter("offset", int), OpenApiParameter("attempt", int)],
        responses=LogSerializer,
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        """Output of the last attempt (or of ``attempt``) from ``offset`` bytes on, cleaned of escape sequences."""
        job = job_of(customer=_party(request), job_id=job_id)
        offset = _number(request, "offset", 0)
        attempts = list(job.attempts.all())
        number = _number(request, "attempt", attempts[-1].number if attempts else 0)
        wanted = [attempt for attempt in attempts if attempt.number == number]
        if not wanted:
            empty = {"text": "", "next_offset": 0, "total_bytes": 0, "dropped": False, "final": job.ended}
            return Response(LogSerializer(empty).data)
        return Response(LogSerializer(log_read(wanted[0], offset=offset)).data)


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or len(text) > 12:
        raise Invalid.field(name, found=text[:20], allowed="a whole number, 0 or more")
    return int(text)
