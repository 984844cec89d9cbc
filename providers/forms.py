"""The application form. Fields only say which kind of value they take; what is allowed is the services' to say."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop

from core.errors import DomainError
from core.forms import add_domain_error
from providers.models import Application
from providers.places import COUNTRIES
from providers.schedules import zones
from providers.selectors import models_offered
from providers.services import ApplicationInput, GpuGroupInput
from providers.services.application_input import (
    HOST_MEMORY_GB,
    MAX_GROUPS,
    NAME_LENGTH,
    NOTE_LENGTH,
    OTHER,
    PLACE_LENGTH,
    QUANTITY,
)

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_WORDS = {"daily": list(range(7)), "weekdays": [0, 1, 2, 3, 4], "weekend": [5, 6]}
ALWAYS, SCHEDULE = "always", "schedule"
GROUP_PREFIX = "group"

_LINE = re.compile(r"(?P<days>[a-z,\s-]+?)\s+(?P<start>\d\d:\d\d)\s*[-–]\s*(?P<end>\d\d:\d\d)")
LINE_ALLOWED = gettext_noop("a line such as “mon-fri 18:00-08:00” or “sat,sun 00:00-24:00”")


class WindowsField(forms.CharField):
    """Weekly windows, one a line (``mon-fri 18:00-08:00``), as the JSON that providers.schedules reads."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("widget", forms.Textarea(attrs={"rows": 3, "placeholder": "mon-fri 18:00-08:00"}))
        super().__init__(max_length=2000, **options)

    def clean(self, value: Any) -> Any:
        lines = [line.strip() for line in super().clean(value).lower().splitlines()]
        return [_window(number, line) for number, line in enumerate(lines, start=1) if line]

    def prepare_value(self, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        return windows_text(value, separator="\n")


def days_text(days: list[int]) -> str:
    """Days as people write them: ``mon-fri``, ``sat,sun``, ``daily``."""
    for word, meant in DAY_WORDS.items():
        if days == meant and word == "daily":
            return word
    whole = len(days) > 2 and days == list(range(days[0], days[-1] + 1))
    return f"{DAYS[days[0]]}-{DAYS[days[-1]]}" if whole else ",".join(DAYS[day] for day in days)


def windows_text(windows: list[dict[str, Any]], *, separator: str = "; ") -> str:
    """Windows as WindowsField reads them."""
    return separator.join(f"{days_text(each['days'])} {each['start']}-{each['end']}" for each in windows)


def _window(number: int, line: str) -> dict[str, Any]:
    found = _LINE.fullmatch(line)
    days = _days(found["days"]) if found else None
    if found is None or days is None:
        raise ValidationError(
            _("Line %(number)d: found “%(line)s”; allowed: %(allowed)s."),
            params={"number": number, "line": line[:60], "allowed": _(LINE_ALLOWED)},
        )
    return {"days": days, "start": found["start"], "end": found["end"]}


def _days(text: str) -> list[int] | None:
    days: list[int] = []
    for part in text.replace(" ", "").split(","):
        if part in DAY_WORDS:
            days += DAY_WORDS[part]
            continue
        first, _dash, last = part.partition("-")
        if first not in DAYS or (last or first) not in DAYS:
            return None
        start, length = DAYS.index(first), (DAYS.index(last or first) - DAYS.index(first)) % 7
        days += [(start + step) % 7 for step in range(length + 1)]
    return sorted(set(days)) if len(set(days)) == len(days) else None


def _country_choices() -> list[tuple[str, Any]]:
    named = sorted(((str(_(name)), code) for code, (name, _region) in COUNTRIES.items()))
    return [("", "—"), *((code, name) for name, code in named)]


def _model_choices() -> list[tuple[str, Any]]:
    return [
        ("", "—"),
        *((model.slug, model.name) for model in models_offered()),
        (OTHER, _("Another model (say which below)")),
    ]


def _open(choices: Any, **options: Any) -> forms.CharField:
    """A select whose value the service judges, so that every refusal reads alike and a draft may stay empty."""
    return forms.CharField(required=False, max_length=64, widget=forms.Select(choices=choices), **options)


class GpuGroupForm(forms.Form):
    gpu_model = _open((), label=_("GPU model"))
    other_model = forms.CharField(
        label=_("Other model"),
        required=False,
        max_length=PLACE_LENGTH,
        help_text=_("Only if your card is not in the list. We judge new hardware case by case."),
    )
    quantity = forms.IntegerField(
        label=_("Quantity"),
        required=False,
        widget=forms.NumberInput(attrs={"min": QUANTITY[0], "max": QUANTITY[1]}),
        help_text=_("How many of these cards you offer."),
    )
    host_memory_gb = forms.IntegerField(
        label=_("System memory (GB)"),
        required=False,
        widget=forms.NumberInput(attrs={"min": HOST_MEMORY_GB[0], "max": HOST_MEMORY_GB[1]}),
        help_text=_("Of the host that the cards sit in."),
    )
    download_gbps = forms.DecimalField(
        label=_("Download speed (Gbit/s)"), required=False, widget=forms.NumberInput(attrs={"step": "0.001"})
    )
    upload_gbps = forms.DecimalField(
        label=_("Upload speed (Gbit/s)"),
        required=False,
        widget=forms.NumberInput(attrs={"step": "0.001"}),
        help_text=_("As you measured it."),
    )
    availability = _open(
        [(ALWAYS, _("Around the clock (24/7)")), (SCHEDULE, _("On a weekly schedule"))], label=_("Availability")
    )
    schedule_zone = forms.CharField(
        label=_("Time zone of the schedule"),
        required=False,
        max_length=64,
        # One list for all groups on the page: six hundred names in each would be most of it.
        widget=forms.TextInput(attrs={"list": "zones", "placeholder": "Europe/Berlin", "autocomplete": "off"}),
    )
    windows = WindowsField(
        label=_("Weekly windows"),
        required=False,
        help_text=_(
            "Only with a schedule. One window a line: “mon-fri 18:00-08:00”, “sat,sun 00:00-24:00”, “daily 22:00-06:00”."
        ),
    )
    city = forms.CharField(label=_("City"), required=False, max_length=PLACE_LENGTH)
    country = _open((), label=_("Country"))
    region = forms.CharField(
        label=_("Data centre or region"), required=False, max_length=PLACE_LENGTH, help_text=_("If it has a name.")
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for name, choices in (
            ("gpu_model", _model_choices()),
            ("country", _country_choices()),
        ):
            self.fields[name].widget.choices = choices  # type: ignore[attr-defined]

    def group_input(self) -> GpuGroupInput:
        """The group as the service takes it. Call it when the form is valid."""
        values = dict(self.cleaned_data)
        return GpuGroupInput(always_on=values.pop("availability") != SCHEDULE, **values)


class ApplicationForm(forms.Form):
    legal_name = forms.CharField(
        label=_("Full legal name"),
        required=False,
        max_length=NAME_LENGTH,
        help_text=_("Of the person we write to. Customers never see it."),
        widget=forms.TextInput(attrs={"autocomplete": "name"}),
    )
    email = forms.CharField(
        label=_("E-mail"), required=False, max_length=254, widget=forms.EmailInput(attrs={"autocomplete": "email"})
    )
    company = forms.CharField(
        label=_("Company (optional)"),
        required=False,
        max_length=NAME_LENGTH,
        widget=forms.TextInput(attrs={"autocomplete": "organization"}),
    )
    ups = _open(
        [("", "—"), *Application.Ups.choices],
        label=_("UPS"),
        help_text=_("Uninterruptible power. Recommended; the enterprise tier needs it on every machine."),
    )
    commitment_months = forms.IntegerField(
        label=_("Commitment"),
        required=False,
        widget=forms.Select(choices=[("", "—"), *Application.Commitment.choices]),
        help_text=_("How long you plan to stay. A longer commitment is seen more on the market."),
    )
    maintenance_note = forms.CharField(
        label=_("Maintenance"),
        required=False,
        max_length=NOTE_LENGTH,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=_("Planned windows or known limits, in your own words."),
    )


class AnswerForm(forms.Form):
    answer = forms.CharField(
        label=_("Your answer"), max_length=NOTE_LENGTH, required=False, widget=forms.Textarea(attrs={"rows": 4})
    )


class ApplicationForms:
    """The form and its GPU groups as one thing; groups are counted by the hidden field ``groups``."""

    def __init__(self, form: ApplicationForm, groups: list[GpuGroupForm]) -> None:
        self.form, self.groups = form, groups

    @classmethod
    def stored(cls, data: ApplicationInput, *, extra: int = 0) -> ApplicationForms:
        """Unbound, showing ``data``; at least one group."""
        given = list(data.groups) or [GpuGroupInput()]
        given += [GpuGroupInput() for _number in range(min(extra, MAX_GROUPS - len(given)))]
        groups = [
            GpuGroupForm(prefix=f"{GROUP_PREFIX}-{number}", initial=_initial(group))
            for number, group in enumerate(given)
        ]
        return cls(ApplicationForm(initial={**vars(data)}), groups)

    @classmethod
    def posted(cls, post: QueryDict) -> ApplicationForms:
        """Bound to what was sent, with ``add_group`` and ``remove_group=<number>`` already done."""
        count = post.get("groups", "1")
        numbers = list(range(min(int(count), MAX_GROUPS))) if count.isdecimal() and len(count) < 4 else [0]
        removed = post.get("remove_group", "")
        if removed.isdecimal() and len(removed) < 4 and int(removed) in numbers and len(numbers) > 1:
            numbers.remove(int(removed))
        groups = [
            GpuGroupForm(_renumbered(post, old, new), prefix=f"{GROUP_PREFIX}-{new}") for new, old in enumerate(numbers)
        ]
        if "add_group" in post and len(groups) < MAX_GROUPS:
            groups.append(GpuGroupForm(prefix=f"{GROUP_PREFIX}-{len(groups)}", initial=_initial(GpuGroupInput())))
        return cls(ApplicationForm(post), groups)

    def is_valid(self) -> bool:
        return all([self.form.is_valid(), *(group.is_valid() for group in self.groups)])

    def application_input(self) -> ApplicationInput:
        groups = tuple(group.group_input() for group in self.groups)
        return ApplicationInput(**self.form.cleaned_data, groups=groups)

    def add_error(self, error: DomainError) -> None:
        """Put ``groups.<number>.<field>`` beside the field of that group, everything else on the form."""
        rest: dict[str, list[str]] = {}
        for name, sentences in error.fields.items():
            head, _dot, tail = name.partition(".")
            number, _dot, field = tail.partition(".")
            field = field.partition(".")[0]
            if head == "groups" and number.isdecimal() and field in self.groups[int(number)].fields:
                for sentence in sentences:
                    self.groups[int(number)].add_error(field, sentence)
            else:
                rest[name] = sentences
        if rest or not error.fields:
            add_domain_error(self.form, DomainError(error.message, fields=rest))

    @property
    def zones(self) -> list[str]:
        return sorted(zones())

    @property
    def full(self) -> bool:
        return len(self.groups) >= MAX_GROUPS


def _initial(group: GpuGroupInput) -> dict[str, Any]:
    values = dict(vars(group))
    values["availability"] = ALWAYS if values.pop("always_on") else SCHEDULE
    return values


def _renumbered(post: QueryDict, old: int, new: int) -> dict[str, Any]:
    start = f"{GROUP_PREFIX}-{old}-"
    return {f"{GROUP_PREFIX}-{new}-{key[len(start) :]}": post[key] for key in post if key.startswith(start)}
