"""What the bank's admin pages ask for. What is allowed is the services' business; these only carry it."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminFileFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminSplitDateTimeWidget,
    UnfoldAdminTextInputWidget,
)

from billing.models import BankDecision, BankEntry, BankLine
from billing.rails import RAILS
from billing.rails.base import FILE_BYTES_MAX
from core.verbs import ConfirmForm, ReasonForm

SCHEMES = [(name, name.upper()) for name in RAILS]
Said = BankDecision.Verdict
WORDS = {
    Said.SETTLED: _("It paid a line"),
    Said.RETURNED: _("It is a line that came back"),
    Said.CAPITAL: _("It is the operator's own money"),
    Said.CHARGE: _("It is what the bank charges"),
    Said.NOTED: _("Seen; it moved nothing"),
}


class SchemeForm(ConfirmForm):
    scheme = forms.ChoiceField(label=_("Rail"), choices=SCHEMES, widget=UnfoldAdminSelectWidget(choices=SCHEMES))


class MessageForm(SchemeForm):
    file = forms.FileField(
        label=_("File from the bank"),
        help_text=_("pain.002 (the answer to a file of ours) or camt.053 (a booked statement), XML."),
        widget=UnfoldAdminFileFieldWidget(),
    )

    def clean_file(self) -> Any:
        file = self.cleaned_data["file"]
        if file.size > FILE_BYTES_MAX:
            found = {"found": file.size, "allowed": FILE_BYTES_MAX}
            raise forms.ValidationError(_("Found %(found)d bytes; allowed: at most %(allowed)d.") % found)
        return file


class RateForm(ConfirmForm):
    reference = forms.CharField(
        label=_("Dollars per euro"),
        max_length=16,
        help_text=_("As the European Central Bank publishes it, such as 1.1702. Payees get half a per cent less."),
        widget=UnfoldAdminTextInputWidget(),
    )
    source = forms.CharField(
        label=_("Source"), max_length=120, initial="ECB euro reference rate", widget=UnfoldAdminTextInputWidget()
    )
    published_at = forms.SplitDateTimeField(
        label=_("Published at"),
        help_text=_("Less than 24 hours ago, in the time zone of your profile."),
        widget=UnfoldAdminSplitDateTimeWidget(),
    )


class EntryForm(ReasonForm):
    """What an entry in suspense is. The line is named by its end-to-end id."""

    verdict = forms.ChoiceField(label=_("What it is"), widget=UnfoldAdminSelectWidget())
    line = forms.CharField(
        label=_("End-to-end id of the line"),
        max_length=35,
        required=False,
        help_text=_("Only for what paid a line or came back."),
        widget=UnfoldAdminTextInputWidget(),
    )
    field_order = ("verdict", "line", "reason")

    def __init__(self, *args: Any, subject: BankEntry, **options: Any) -> None:
        super().__init__(*args, subject=subject, **options)
        self.fields["verdict"].choices = [(verdict.value, WORDS[verdict]) for verdict in _possible(subject)]  # type: ignore[attr-defined]
        self.fields["line"].initial = subject.line.end_to_end_id if subject.line else ""

    def clean_line(self) -> BankLine | None:
        name = self.cleaned_data["line"].strip()
        if not name or self.cleaned_data.get("verdict") not in (Said.SETTLED, Said.RETURNED):
            return None
        line = BankLine.objects.filter(end_to_end_id=name).first()
        if line is None:
            raise forms.ValidationError(
                _("Found %(found)s; allowed: the end-to-end id of one of our lines.") % {"found": name}
            )
        return line


def _possible(entry: BankEntry) -> list[BankDecision.Verdict]:
    if entry.side == BankEntry.Side.REPORT:
        return [Said.NOTED]
    if entry.side == BankEntry.Side.DEBIT:
        return [Said.CHARGE, Said.SETTLED, Said.CAPITAL]
    return [Said.CAPITAL, Said.RETURNED]
