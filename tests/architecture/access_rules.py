"""The list behind test_access_matrix: every route, who may open it, and whose things it shows."""

from __future__ import annotations

from dataclasses import dataclass

LOG_IN, ANSWERED = "log-in", "answered"


@dataclass(frozen=True)
class Expected:
    """Outcomes allowed for an anonymous visitor, for signed-in strangers and for staff without a permission."""

    anonymous: frozenset[str]
    stranger: frozenset[str]
    clerk: frozenset[str]
    is_owners: bool = False

    def for_who(self, who: str) -> frozenset[str]:
        return {"anonymous": self.anonymous, "clerk": self.clerk}.get(who, self.stranger)

    @property
    def moves_nothing(self) -> bool:
        return ANSWERED not in self.anonymous | self.stranger | self.clerk

    @classmethod
    def of(cls, anonymous: str, stranger: str, clerk: str | None = None, *, is_owners: bool = False) -> Expected:
        """Each argument: outcomes separated by blanks."""
        sets = [frozenset(text.split()) for text in (anonymous, stranger, clerk or stranger)]
        return cls(*sets, is_owners=is_owners)

    @classmethod
    def owner(cls) -> Expected:
        return cls.of(LOG_IN, "404", is_owners=True)


PUBLIC = Expected.of(ANSWERED, ANSWERED)
"""Everybody."""
SIGNED_IN = Expected.of(LOG_IN, ANSWERED)
"""Each person sees their own."""
OWNER = Expected.owner()
"""One thing of one party: 404 for everybody else."""
API_PUBLIC = Expected.of(ANSWERED, ANSWERED)
API_SIGNED_IN = Expected.of("401 403", ANSWERED)
API_OWNER = Expected.of("401 403", "404", is_owners=True)
HOST = Expected.of("401", "401")
"""Agents: a browser's session opens nothing here."""
PROVIDER = Expected.of(LOG_IN, "404 answered")
"""A provider's own overview: others are told how to become one, or that nothing is there."""
API_PROVIDER = Expected.of("401 403", f"404 {ANSWERED}")
PENDING_LOG_IN = Expected.of(f"{LOG_IN} {ANSWERED} 404", ANSWERED)
"""A step of a log-in under way."""


@dataclass(frozen=True)
class Route:
    path: str
    rule: Expected
    methods: tuple[str, ...] = ("GET",)
    owner: str = ""
    """For an owner's route: who of the scene owns the things it shows."""


def admin_rule(path: str) -> Expected:
    """The operator's pages. Model pages need a permission; the frame around them only the staff flag."""
    framework = path.count("/") <= 2 or path.startswith(("admin/r/", "admin/password_change/", "admin/^("))
    # For an unknown object two of Django's pages go back to the index before they ask for a permission.
    lost = path.endswith(("/history/", "/<path:object_id>/"))
    clerk = f"{ANSWERED} 403 404 405" if framework else f"403 {ANSWERED if lost else ''}"
    if path == "admin/logout/":
        return Expected.of(ANSWERED, ANSWERED, "405")
    return Expected.of(LOG_IN, f"{LOG_IN} 403", clerk)


BOTH = ("GET", "POST")
POST = ("POST",)
BENCH = ("start", "commit", "open", "download", "upload")

GPUNEX = [
    Route("", PUBLIC),
    Route("healthz", PUBLIC),
    Route("readyz", PUBLIC),
    # Who is no provider is sent on to the roles page.
    Route("provider/", SIGNED_IN),
    Route("api/schema/", API_PUBLIC),
    Route("api/docs/", PUBLIC),
    Route("agent/v1/sync", HOST, POST),
    Route("agent/v1/credential", HOST, POST),
    Route("agent/v1/events", HOST, POST),
    Route("agent/v1/attempts/<uuid:attempt_id>/logs", HOST, POST),
    Route("agent/v1/attempts/<uuid:attempt_id>/secrets", HOST, POST),
    *(Route(f"agent/v1/bench/<uuid:run_id>/{step}", HOST, POST) for step in BENCH),
    # Here it only says where the doorbell is; the ticket is the doorbell's to judge.
    Route("agent/v1/bell", Expected.of(f"404 {ANSWERED}", f"404 {ANSWERED}")),
]

ACCOUNTS = [
    Route("roles/", PUBLIC),
    Route("language/", PUBLIC, POST),
    Route("theme/", PUBLIC, POST),
    Route("account/", SIGNED_IN, BOTH),
    Route("inbox/", SIGNED_IN),
    Route("inbox/read/", SIGNED_IN, POST),
    Route("inbox/<uuid:notification_id>/", OWNER, POST, owner="ravi"),
]

BILLING = [
    Route("billing/", SIGNED_IN),
    Route("billing/deposits/", SIGNED_IN, POST),
    Route("billing/deposits/<uuid:intent_id>/", OWNER, owner="ravi"),
    Route("billing/deposits/<uuid:intent_id>/status/", OWNER, owner="ravi"),
    Route("billing/claims/", SIGNED_IN),
    Route("billing/claims/wallet/", SIGNED_IN, POST),
    Route("billing/claims/evidence/", SIGNED_IN, POST),
    Route("billing/claims/<uuid:claim_id>/prove/", OWNER, POST, owner="ravi"),
    Route("billing/withdrawals/", SIGNED_IN, BOTH),
    Route("billing/withdrawals/wallet/", SIGNED_IN, POST),
    Route("billing/withdrawals/<uuid:payout_id>/cancel/", OWNER, POST, owner="ravi"),
    Route("billing/documents/", SIGNED_IN),
    Route("billing/documents/<uuid:document_id>/", OWNER, owner="ravi"),
    Route("billing/documents/<uuid:document_id>/<slug:form>/", OWNER, owner="ravi"),
    Route("billing/limits/", SIGNED_IN, POST),
    Route("api/v1/billing/limits", API_SIGNED_IN, ("GET", "PATCH")),
    Route("api/v1/billing/disputes", API_SIGNED_IN),
    Route("api/v1/billing/balance", API_SIGNED_IN),
    Route("api/v1/billing/history", API_SIGNED_IN),
    Route("api/v1/billing/deposits", API_SIGNED_IN, POST),
    Route("api/v1/billing/deposits/<uuid:intent_id>", API_OWNER, owner="ravi"),
    Route("api/v1/billing/payouts", API_SIGNED_IN),
    Route("api/v1/billing/claims", API_SIGNED_IN, BOTH),
    Route("api/v1/billing/claims/<uuid:claim_id>/proof", API_OWNER, POST, owner="ravi"),
    Route("api/v1/billing/withdrawals", API_SIGNED_IN, BOTH),
    Route("api/v1/billing/withdrawals/<uuid:payout_id>/cancel", API_OWNER, POST, owner="ravi"),
    Route("api/v1/billing/receipts", API_SIGNED_IN),
    Route("api/v1/billing/statements", API_SIGNED_IN),
    Route("api/v1/billing/documents/<uuid:document_id>", API_OWNER, owner="ravi"),
    Route("api/v1/billing/documents/<uuid:document_id>/<slug:form>", API_OWNER, owner="ravi"),
]

PROVIDERS = [
    Route("provider/apply/", SIGNED_IN, BOTH),
    Route("provider/application/", SIGNED_IN, BOTH),
    Route("provider/application/withdraw/", SIGNED_IN, POST),
    Route("agent", PUBLIC),
    Route("agent/manual/", PUBLIC),
    # Whoever has an enrolment token may enrol; without one the answer is a refusal that names the field.
    Route("agent/v1/enrol", PUBLIC, POST),
    Route("api/v1/provider/machines", Expected.of("401 403", f"404 {ANSWERED}")),
    Route("api/v1/provider/machines/<uuid:machine_id>", API_OWNER, owner="ada"),
]

MARKETPLACE = [
    Route("market/", PUBLIC),
    Route("market/<uuid:listing_id>/", PUBLIC),
    Route("jobs/", SIGNED_IN),
    Route("jobs/new/", SIGNED_IN, BOTH),
    Route("jobs/new/estimate/", SIGNED_IN),
    Route("jobs/<uuid:job_id>/", OWNER, owner="ravi"),
    Route("jobs/<uuid:job_id>/live/", OWNER, owner="ravi"),
    Route("jobs/<uuid:job_id>/log/", OWNER, owner="ravi"),
    Route("jobs/<uuid:job_id>/cancel/", OWNER, POST, owner="ravi"),
    Route("jobs/<uuid:job_id>/attempts/<int:number>/dispute/", OWNER, POST, owner="ravi"),
    Route("jobs/<uuid:job_id>/rerun/", OWNER, BOTH, owner="ravi"),
    # Whoever holds the letter's link; what it opens is tested in tests/billing/test_freezes.py.
    Route("payout-freeze/<str:token>/", Expected.of("404", "404"), BOTH),
    Route("provider/pricing/", PROVIDER, BOTH),
    Route("provider/earnings/", PROVIDER),
    Route("provider/earnings/destination/", PROVIDER, POST),
    Route("provider/earnings/bank/", PROVIDER, POST),
    Route("provider/machines/", PROVIDER),
    # Whose machines are ticked stands in the form: tests/marketplace/test_fleet.py tries other people's.
    Route("provider/machines/with-ticked/<slug:action>/", PROVIDER, POST),
    Route("provider/machines/<uuid:machine_id>/describe/", OWNER, POST, owner="ada"),
    Route("provider/machines/<uuid:machine_id>/", OWNER, owner="ada"),
    Route("provider/machines/<uuid:machine_id>/telemetry/", OWNER, owner="ada"),
    Route("provider/machines/<uuid:machine_id>/gpus/<uuid:gpu_id>/request/", OWNER, POST, owner="ada"),
    Route("provider/machines/<uuid:machine_id>/gpus/<uuid:gpu_id>/release/", OWNER, POST, owner="ada"),
    Route("provider/machines/<uuid:machine_id>/<slug:action>/", OWNER, POST, owner="ada"),
    Route("api/v1/provider/earnings", API_PROVIDER),
    Route("api/v1/provider/payouts", API_PROVIDER),
    Route("api/v1/provider/statements", API_PROVIDER),
    Route("api/v1/market/listings", API_PUBLIC),
    Route("api/v1/market/listings/<uuid:listing_id>", API_PUBLIC),
    Route("api/v1/jobs", API_SIGNED_IN, BOTH),
    Route("api/v1/jobs/<uuid:job_id>", API_OWNER, owner="ravi"),
    Route("api/v1/jobs/<uuid:job_id>/attempts/<int:number>/dispute", API_OWNER, POST, owner="ravi"),
    Route("api/v1/jobs/<uuid:job_id>/cancel", API_OWNER, POST, owner="ravi"),
    Route("api/v1/jobs/<uuid:job_id>/log", API_OWNER, owner="ravi"),
]

FLEET = [
    Route("provider/benchmarks/", PROVIDER),
    Route("provider/benchmarks/<uuid:gpu_id>/retest/", OWNER, POST, owner="ada"),
    Route("provider/performance/", PROVIDER),
]

ALLAUTH = [
    Route("account/login/", PUBLIC),
    Route("account/logout/", PUBLIC),
    Route("account/inactive/", PUBLIC),
    Route("account/signup/", PUBLIC),
    Route("account/confirm-email/", PENDING_LOG_IN),
    Route(r"account/^confirm-email/(?P<key>[-:\w]+)/$", PUBLIC),
    Route("account/password/reset/", PUBLIC),
    Route("account/password/reset/done/", PUBLIC),
    Route("account/password/reset/key/done/", PUBLIC),
    Route(r"account/^password/reset/key/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)/$", PUBLIC),
    Route("account/login/code/confirm/", PENDING_LOG_IN),
    Route("account/email/", SIGNED_IN),
    Route("account/password/change/", SIGNED_IN),
    Route("account/password/set/", SIGNED_IN),
    Route("account/reauthenticate/", SIGNED_IN),
    Route("account/reauthenticate/code/", SIGNED_IN),
    Route("account/reauthenticate/code/confirm/", SIGNED_IN),
    Route("account/2fa/", SIGNED_IN),
    Route("account/2fa/authenticate/", PENDING_LOG_IN),
    Route("account/2fa/reauthenticate/", SIGNED_IN),
    Route("account/2fa/totp/activate/", SIGNED_IN),
    Route("account/2fa/totp/deactivate/", Expected.of(LOG_IN, "answered 404")),
    Route("account/2fa/recovery-codes/", Expected.of(LOG_IN, "answered 404")),
    Route("account/2fa/recovery-codes/generate/", Expected.of(LOG_IN, "answered 404")),
    Route("account/2fa/recovery-codes/download/", Expected.of(LOG_IN, "answered 404")),
]

RULES: list[Route] = [*GPUNEX, *ACCOUNTS, *BILLING, *PROVIDERS, *FLEET, *MARKETPLACE, *ALLAUTH]
