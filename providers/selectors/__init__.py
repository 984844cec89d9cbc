from providers.selectors.applications import (
    application_checks,
    application_of,
    application_open_of,
    application_proposal,
    application_timeline,
    approved_countries,
    business_days,
    review_queue,
)
from providers.selectors.attention import gpus_in_review, machines_short, machines_waiting
from providers.selectors.catalogue import aliases_known, models_offered
from providers.selectors.credentials import Known, credential_find, credentials_forget, machine_by_credential
from providers.selectors.fleet import (
    inventory_digest_of,
    machine_of,
    machines_of,
    plan_of,
    plan_version_of,
    provider_of,
)
from providers.selectors.schedules import schedule_of, schedule_versions, schedules_of

__all__ = [
    "Known",
    "aliases_known",
    "application_checks",
    "application_of",
    "application_open_of",
    "application_proposal",
    "application_timeline",
    "approved_countries",
    "business_days",
    "credential_find",
    "credentials_forget",
    "gpus_in_review",
    "inventory_digest_of",
    "machine_by_credential",
    "machine_of",
    "machines_of",
    "machines_short",
    "machines_waiting",
    "models_offered",
    "plan_of",
    "plan_version_of",
    "provider_of",
    "review_queue",
    "schedule_of",
    "schedule_versions",
    "schedules_of",
]
