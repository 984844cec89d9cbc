"""Bank payouts for staff: files, rates, what the bank sent, what waits for two people. All of it through services."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from billing import services
from billing.admin.bank_forms import EntryForm, MessageForm, RateForm, SchemeForm
from billing.euros import format_reference
from billing.models import BankDecision, BankEntry, BankFile, BankLine, BankMessage, Disclosure, EurRate
from billing.rails.base import masked
from billing.states import BANK_LINE_LIVE
from core import clock
from core.admin import ReadOnlyAdmin, ReadOnlyInline
from core.money import format_cents
from core.verbs import ConfirmForm, ReasonForm, Verb, VerbsAdmin

Values = dict[str, Any]


class _Cents:
    @admin.display(description=_("Amount"))
    def amount(self, row: Any) -> str:
        currency = row.file.currency if isinstance(row, BankLine) else row.currency
        return f"{format_cents(row.amount_cents)} {currency}"


class LineInline(_Cents, ReadOnlyInline):
    model = BankLine
    fields = ("n", "payout", "end_to_end_id", "amount", "state", "reason")
    readonly_fields = ("amount",)
    show_change_link = True
    beside = ("file", "payout")
    ordering = ("n", "pk")
    unseen = ("file__data",)


def _download(data: bytes, name: str) -> HttpResponse:
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return HttpResponse(data, content_type="application/xml", headers=headers)


def _make_file(_subject: None, actor: User, values: Values) -> object:
    return services.bank_file_make(scheme=values["scheme"], actor=actor, now=clock.now())


def _approve_file(file: BankFile, actor: User, values: Values) -> object:
    return services.bank_file_approve(file=file, actor=actor, now=clock.now())


def _fetch_file(file: BankFile, actor: User, values: Values) -> HttpResponse:
    found = services.bank_file_fetch(file_id=file.pk, actor=actor, now=clock.now())
    return _download(bytes(found.data), f"{found.message_id}.xml")


@admin.register(BankFile)
class BankFileAdmin(VerbsAdmin):
    list_display = (
        "message_id",
        "scheme",
        "execution_date",
        "line_count",
        "total",
        "made_by",
        "approved_by",
        "created_at",
    )
    list_filter = ("scheme", "execution_date")
    list_select_related = ("made_by", "approved_by")
    search_fields = ("message_id", "lines__end_to_end_id")
    ordering = ("-created_at",)
    inlines = (LineInline,)
    unseen = ("data",)
    fields = (
        *("message_id", "scheme", "our_account", "execution_date", "line_count", "total", "checksum"),
        *("made_by", "created_at", "approved_by", "approved_at"),
    )
    readonly_fields = ("total", "checksum", "our_account")
    list_verbs = (
        Verb(
            "make",
            _("Make a payment file"),
            _make_file,
            bool,
            SchemeForm,
            _(
                "Of every released bank payout that is in no file. A second person approves it before it can be fetched."
            ),
            permission="add_bankfile",
        ),
    )
    verbs = (
        Verb(
            "approve",
            _("Approve the file"),
            _approve_file,
            lambda file: file.approved_at is None,
            ConfirmForm,
            _("Somebody else than its maker."),
        ),
        Verb(
            "fetch",
            _("Fetch the file"),
            _fetch_file,
            lambda file: file.approved_at is not None,
            ConfirmForm,
            _("The same bytes every time. It is written down that you fetched it."),
            permission="view_bankfile",
        ),
    )

    @admin.display(description=_("Total"), ordering="control_cents")
    def total(self, file: BankFile) -> str:
        return f"{format_cents(file.control_cents)} {file.currency}"

    @admin.display(description=_("Our account"))
    def our_account(self, file: BankFile) -> str:
        return masked(file.account)

    @admin.display(description="SHA-256")
    def checksum(self, file: BankFile) -> str:
        return bytes(file.sha256).hex()


def _say_absent(line: BankLine, actor: User, values: Values) -> object:
    return services.bank_decision_propose(
        verdict=BankDecision.Verdict.ABSENT, line=line, reason=values["reason"], actor=actor, now=clock.now()
    )


@admin.register(BankLine)
class BankLineAdmin(_Cents, VerbsAdmin):
    list_display = ("end_to_end_id", "payout", "amount", "state", "reason", "file", "created_at")
    list_filter = ("state",)
    list_select_related = ("file", "payout")
    unseen = ("file__data",)
    search_fields = ("end_to_end_id", "payout__id", "payout__party__handle")
    ordering = ("-created_at",)
    fields = ("end_to_end_id", "file", "payout", "n", "amount", "state", "reason", "created_at")
    readonly_fields = ("amount",)
    verbs = (
        Verb(
            "absent",
            _("Say that the bank never had it"),
            _say_absent,
            lambda line: line.state in BANK_LINE_LIVE,
            ReasonForm,
            _(
                "Once a second person agrees, the payout may go into a new file. Statements must show that it was not booked."
            ),
            permission="add_bankdecision",
        ),
    )


def _take_in(_subject: None, actor: User, values: Values) -> object:
    data = values["file"].read()
    message = services.bank_message_import(data=data, scheme=values["scheme"], actor=actor, now=clock.now())
    counted = ", ".join(f"{name} {count}" for name, count in message.outcome.items()) or _now("nothing booked")
    return f"{message.kind} {message.name}: {counted}"


def _show_message(message: BankMessage, actor: User, values: Values) -> HttpResponse:
    found = services.bank_message_show(message_id=message.pk, actor=actor, now=clock.now())
    return _download(bytes(found.data), f"{found.kind}-{found.pk}.xml")


@admin.register(BankMessage)
class BankMessageAdmin(VerbsAdmin):
    list_display = ("created_at", "kind", "name", "closing_on", "closing", "outcome", "imported_by")
    list_filter = ("kind", "scheme")
    list_select_related = ("imported_by",)
    search_fields = ("name",)
    ordering = ("-created_at",)
    unseen = ("data",)
    fields = ("kind", "scheme", "name", "closing_on", "closing", "outcome", "imported_by", "created_at")
    readonly_fields = ("closing",)
    list_verbs = (
        Verb(
            "import",
            _("Take in a file from the bank"),
            _take_in,
            bool,
            MessageForm,
            _("All of it or nothing. The same file again changes nothing."),
            permission="add_bankmessage",
        ),
    )
    verbs = (
        Verb(
            "fetch",
            _("Fetch it as it came"),
            _show_message,
            lambda message: True,
            ConfirmForm,
            _("It has account numbers in full. It is written down that you fetched it."),
            permission="view_bankmessage",
        ),
    )

    @admin.display(description=_("Closing balance"))
    def closing(self, message: BankMessage) -> str:
        return "–" if message.closing_cents is None else format_cents(message.closing_cents)


class SuspenseFilter(admin.SimpleListFilter):
    """Shows what waits for a decision unless told otherwise."""

    title = _("state")
    parameter_name = "waits"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("all", _("All"))]

    def choices(self, changelist: Any) -> Any:
        for value, label in ((None, _("In suspense")), ("all", _("All"))):
            query = changelist.get_query_string({self.parameter_name: value} if value else {}, [self.parameter_name])
            yield {"selected": self.value() == value, "query_string": query, "display": label}

    def queryset(self, request: HttpRequest, queryset: QuerySet[BankEntry]) -> QuerySet[BankEntry]:
        return queryset if self.value() == "all" else queryset.filter(state=BankEntry.State.SUSPENSE)


def _say(entry: BankEntry, actor: User, values: Values) -> object:
    return services.bank_decision_propose(entry=entry, actor=actor, now=clock.now(), **values)


@admin.register(BankEntry)
class BankEntryAdmin(_Cents, VerbsAdmin):
    """The suspense queue is this list; matched entries are in it, too."""

    list_display = ("booked_on", "side", "amount", "counterparty", "end_to_end_id", "text", "state", "reason")
    list_filter = (SuspenseFilter, "side", "outcome")
    search_fields = ("end_to_end_id", "reference", "counterparty")
    ordering = ("-created_at",)
    fields = (
        *("message", "side", "amount", "booked_on", "end_to_end_id", "reference", "counterparty", "text"),
        *("state", "outcome", "reason", "line", "transfer", "created_at"),
    )
    readonly_fields = ("amount",)
    verbs = (
        Verb(
            "decide",
            _("Say what it is"),
            _say,
            lambda entry: entry.state == BankEntry.State.SUSPENSE,
            EntryForm,
            _("Nothing moves until a second person agrees."),
            permission="add_bankdecision",
        ),
    )


def _confirm(decision: BankDecision, actor: User, values: Values) -> object:
    return services.bank_decision_confirm(decision=decision, actor=actor, now=clock.now())


@admin.register(BankDecision)
class BankDecisionAdmin(VerbsAdmin):
    list_display = ("created_at", "verdict", "line", "entry", "reason", "proposed_by", "confirmed_by", "confirmed_at")
    list_filter = (("confirmed_at", admin.EmptyFieldListFilter), "verdict")
    list_select_related = ("line", "entry", "proposed_by", "confirmed_by")
    ordering = ("-created_at",)
    fields = ("verdict", "line", "entry", "reason", "proposed_by", "created_at", "confirmed_by", "confirmed_at")
    verbs = (
        Verb(
            "confirm",
            _("Confirm"),
            _confirm,
            lambda decision: decision.confirmed_at is None,
            ConfirmForm,
            _("Somebody else than who proposed it. What follows from it is done at once."),
        ),
    )


def _enter_rate(_subject: None, actor: User, values: Values) -> object:
    return services.eur_rate_enter(actor=actor, now=clock.now(), **values)


def _confirm_rate(rate: EurRate, actor: User, values: Values) -> object:
    return services.eur_rate_confirm(rate=rate, actor=actor, now=clock.now())


@admin.register(EurRate)
class EurRateAdmin(VerbsAdmin):
    list_display = ("published_at", "dollars", "margin_bps", "source", "entered_by", "confirmed_by", "confirmed_at")
    list_select_related = ("entered_by", "confirmed_by")
    ordering = ("-created_at",)
    fields = (
        *("dollars", "margin_bps", "source", "published_at", "entered_by", "created_at"),
        *("confirmed_by", "confirmed_at"),
    )
    readonly_fields = ("dollars",)
    list_verbs = (
        Verb(
            "enter",
            _("Enter a euro rate"),
            _enter_rate,
            bool,
            RateForm,
            _("Bank payouts are planned at it once a second person has confirmed it."),
            permission="add_eurrate",
        ),
    )
    verbs = (
        Verb(
            "confirm",
            _("Confirm the rate"),
            _confirm_rate,
            lambda rate: rate.confirmed_at is None,
            ConfirmForm,
            _("Somebody else than who entered it, after a look at the source."),
        ),
    )

    @admin.display(description=_("Dollars per euro"), ordering="reference_micro")
    def dollars(self, rate: EurRate) -> str:
        return format_reference(rate.reference_micro)


@admin.register(Disclosure)
class DisclosureAdmin(ReadOnlyAdmin):
    """Who saw bank data in full."""

    list_display = ("at", "actor", "what", "subject_id")
    list_filter = ("what",)
    list_select_related = ("actor",)
    search_fields = ("actor__email", "=subject_id")
    ordering = ("-id",)
    fields = ("at", "actor", "what", "subject_id")
