from providers.services.application_input import ApplicationInput, GpuGroupInput, application_input
from providers.services.applications import (
    application_answer,
    application_save_draft,
    application_submit,
    application_withdraw,
)
from providers.services.claims import gpus_claim, gpus_release
from providers.services.credentials import (
    machine_credential_add,
    machine_credential_rotate,
    machine_credential_use,
)
from providers.services.enrolment import Enrolled, machine_enrol
from providers.services.gpus import gpu_accept, gpu_decline, gpu_hold, gpu_release, gpu_request
from providers.services.inventory import (
    gpu_left_rejudge,
    machine_inventory_record,
    machine_network_record,
    machine_rejudge,
    machine_rejudge_told,
    provider_fleet_rejudge,
)
from providers.services.labels import machine_label, machine_label_add, machine_rename
from providers.services.machines import (
    machine_confirm,
    machine_drain,
    machine_quarantine,
    machine_resume,
    machine_retire,
    machine_revoke,
    machine_shortfalls_accept,
    machine_unquarantine,
)
from providers.services.plans import machine_channel, plan_put, plan_remove
from providers.services.providers import provider_close, provider_reinstate, provider_suspend
from providers.services.reviews import (
    application_approve,
    application_reject,
    application_request_information,
    application_take,
)
from providers.services.schedules import schedule_parse, schedule_set, schedules_sweep
from providers.services.sessions import machine_session_record
from providers.services.tokens import enrolment_token_issue, enrolment_token_revoke, reenrolment_token_issue

__all__ = [
    "ApplicationInput",
    "Enrolled",
    "GpuGroupInput",
    "application_answer",
    "application_approve",
    "application_input",
    "application_reject",
    "application_request_information",
    "application_save_draft",
    "application_submit",
    "application_take",
    "application_withdraw",
    "enrolment_token_issue",
    "enrolment_token_revoke",
    "gpu_accept",
    "gpu_decline",
    "gpu_hold",
    "gpu_left_rejudge",
    "gpu_release",
    "gpu_request",
    "gpus_claim",
    "gpus_release",
    "machine_channel",
    "machine_confirm",
    "machine_credential_add",
    "machine_credential_rotate",
    "machine_credential_use",
    "machine_drain",
    "machine_enrol",
    "machine_inventory_record",
    "machine_label",
    "machine_label_add",
    "machine_network_record",
    "machine_quarantine",
    "machine_rejudge",
    "machine_rejudge_told",
    "machine_rename",
    "machine_resume",
    "machine_retire",
    "machine_revoke",
    "machine_session_record",
    "machine_shortfalls_accept",
    "machine_unquarantine",
    "plan_put",
    "plan_remove",
    "provider_close",
    "provider_fleet_rejudge",
    "provider_reinstate",
    "provider_suspend",
    "reenrolment_token_issue",
    "schedule_parse",
    "schedule_set",
    "schedules_sweep",
]
