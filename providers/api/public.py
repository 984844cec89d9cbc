"""The provider's fleet for programs."""

from __future__ import annotations

from datetime import datetime
from typing import cast
from uuid import UUID

from django.db.models import Q
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.models import User
from accounts.selectors import party_of
from core.cursors import cursor_decode, cursor_encode
from core.errors import NotFound
from providers.api.serializers import MachinePageSerializer, MachineSerializer
from providers.models import Machine, Provider
from providers.selectors import machine_of, machines_of, provider_of

PAGE = 50
SCOPE = "provider:machines"


def _provider(request: Request) -> Provider:
    provider = provider_of(party_of(cast(User, request.user)))
    if provider is None:
        raise NotFound("You are not a provider.")
    return provider


class MachinesView(APIView):
    @extend_schema(
        operation_id="provider_machines",
        parameters=[OpenApiParameter("cursor", str, description="The next_cursor of an earlier answer.")],
        responses=MachinePageSerializer,
    )
    def get(self, request: Request) -> Response:
        """Your machines with their GPUs, the newest first, 50 a page."""
        machines = machines_of(_provider(request))
        if text := request.query_params.get("cursor"):
            at, last = cursor_decode(text, scope=SCOPE)
            moment, after = datetime.fromisoformat(str(at)), UUID(str(last))
            machines = machines.filter(Q(enrolled_at__lt=moment) | Q(enrolled_at=moment, pk__lt=after))
        rows = list(machines[: PAGE + 1])
        page = rows[:PAGE]
        cursor = _cursor(page[-1]) if len(rows) > PAGE else None
        return Response(MachinePageSerializer({"machines": page, "next_cursor": cursor}).data)


class MachineView(APIView):
    @extend_schema(operation_id="provider_machine", responses=MachineSerializer)
    def get(self, request: Request, machine_id: UUID) -> Response:
        """One of your machines, retired ones included."""
        return Response(MachineSerializer(machine_of(_provider(request), machine_id)).data)


def _cursor(machine: Machine) -> str:
    return cursor_encode([machine.enrolled_at.isoformat(), str(machine.pk)], scope=SCOPE)
