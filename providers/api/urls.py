from __future__ import annotations

from django.urls import path

from providers.api import agent, public

public_urlpatterns = [
    path("provider/machines", public.MachinesView.as_view(), name="provider_machines"),
    path("provider/machines/<uuid:machine_id>", public.MachineView.as_view(), name="provider_machine"),
]
agent_urlpatterns = [
    path("enrol", agent.enrol, name="enrol"),
]
