from __future__ import annotations

import shlex
from copy import deepcopy
from datetime import MAXYEAR
from decimal import Decimal
from typing import Any
from uuid import UUID

from django import forms
from django.utils.translation import gettext as translate
from django.utils.translation import gettext_lazy as _

from agent_protocol.logins import PASSWORD_LENGTH, USERNAME_LENGTH
from core.errors import DomainError
from core.money import format_usdc, parse_usdc
from marketplace import jobspec
from marketplace.jobspec import HOUR, JobSpec
from marketplace.models import Dispute, Job, Listing
from providers.models import GpuModel
from providers.places import COUNTRIES, REGIONS

MINUTE = 60

TEMPLATES: dict[str, dict[str, Any]] = {
    "hello": {
        "title": _("Hello from a container"),
        "image": "python:3.12-slim",
        "command": "python -c \"import platform; print('hello from', platform.machine())\"",
        "time_limit_s": Decimal("0.25"),
    },
    "gpu": {
        "title": _("Look at the GPU"),
        "image": "nvidia/cuda:12.6.3-base-ubuntu24.04",
        "command": "nvidia-smi",
        "time_limit_s": Decimal("0.25"),
    },
    "pytorch": {
        "title": _("PyTorch"),
        "image": "pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime",
        "command": 'python -c "import torch; print(torch.cuda.get_device_name(0))"',
        "time_limit_s": Decimal(1),
    },
}
"""Jobs to start from; more come with an image library of their own."""


class UsdcField(forms.CharField):
    """A decimal amount as people write it; cleans to micro-USDC."""

    def __init__(self, **options: Any) -> None:
        super().__init__(max_length=24, widget=forms.TextInput(attrs={"inputmode": "decimal"}), **options)

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        if not text:
            return None
        try:
            return parse_usdc(text)
        except DomainError as error:
            raise forms.ValidationError(error.fields["amount"]) from None


class PairsField(forms.CharField):
    """``KEY=value`` lines; cleans to a dictionary."""

    def __init__(self, **options: Any) -> None:
        widget = forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "autocomplete": "off"})
        super().__init__(required=False, widget=widget, **options)

    def clean(self, value: Any) -> Any:
        found: dict[str, str] = {}
        for number, line in enumerate(super().clean(value).splitlines(), start=1):
            if not line.strip():
                continue
            key, equals, text = line.partition("=")
            if not equals:
                raise forms.ValidationError(translate("Line %(number)d: write KEY=value.") % {"number": number})
            found[key.strip()] = text
        return found


def _models() -> list[tuple[str, Any]]:
    return [("", _("Any model")), *GpuModel.objects.order_by("name").values_list("slug", "name")]


class JobForm(forms.Form):
    """Field names are those of JobSpec (and of the service's errors), so that every refusal stands beside its field."""

    name = forms.CharField(label=_("Job name"), required=False, max_length=jobspec.NAME_LENGTH)
    image = forms.CharField(
        label=_("Image"),
        max_length=512,
        help_text=_("From docker.io, ghcr.io, quay.io or nvcr.io, e.g. python:3.12-slim."),
    )
    registry_username = forms.CharField(
        label=_("Registry user name"),
        required=False,
        max_length=USERNAME_LENGTH,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text=_("Only for a private image: who may pull it."),
    )
    registry_password = forms.CharField(
        label=_("Registry password or token"),
        required=False,
        max_length=PASSWORD_LENGTH,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=_(
            "Take a token that can only read. It is stored encrypted, given to the machine that pulls the image, "
            "used for that pull at that registry alone, and deleted when the job ends."
        ),
    )
    command = forms.CharField(
        label=_("Command"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
        help_text=_("As in a shell, without its magic: quotes group words. Empty: what the image runs by itself."),
    )
    environment = PairsField(label=_("Environment"), help_text=_("One KEY=value per line."))
    secrets = PairsField(
        label=_("Secrets"),
        help_text=_("Like the environment, but stored encrypted, never shown again, and deleted when the job ends."),
    )
    gpu_model = forms.ChoiceField(label=_("GPU model"), required=False, choices=_models)
    gpu_count = forms.IntegerField(label=_("GPUs"), initial=1, min_value=1, help_text=_("All on one machine."))
    max_rate = UsdcField(
        label=_("Highest price"), help_text=_("USDC per GPU-hour. You pay the machine's price, at most this.")
    )
    region = forms.ChoiceField(
        label=_("Region"), required=False, choices=lambda: [("", _("Anywhere")), *REGIONS.items()]
    )
    country = forms.ChoiceField(
        label=_("Country"),
        required=False,
        choices=lambda: [
            ("", _("Any")),
            *((code, translate(name)) for code, (name, _region) in sorted(COUNTRIES.items())),
        ],
    )
    min_reliability = forms.DecimalField(
        label=_("Reliability at least"), required=False, min_value=Decimal(0), max_value=Decimal(100)
    )
    disk_gb = forms.IntegerField(label=_("Disk (GB)"), initial=jobspec.DISK_DEFAULT_GB)
    time_limit_s = forms.DecimalField(
        label=_("Time limit (hours)"), initial=24, help_text=_("The job is stopped then. At most 720 hours.")
    )
    disconnect_grace_s = forms.IntegerField(
        label=_("If the machine is cut off (minutes)"),
        initial=jobspec.GRACE_DEFAULT_S // MINUTE,
        help_text=_("How long the job goes on there unseen before it is stopped and started elsewhere."),
    )
    max_attempts = forms.IntegerField(
        label=_("Attempts"),
        initial=1,
        help_text=_("Up to 3: tried again elsewhere when the machine or the platform fails."),
    )

    CRITERIA = ("gpu_model", "region", "country", "min_reliability")
    GROUPS = (
        (
            _("What runs"),
            ("name", "image", "registry_username", "registry_password", "command", "environment", "secrets"),
        ),
        (_("Where"), ("gpu_model", "gpu_count", "max_rate", "region", "country", "min_reliability")),
        (_("Limits"), ("time_limit_s", "disk_gb", "max_attempts", "disconnect_grace_s")),
    )
    WIDE = ("name", "command", "environment", "secrets")

    def __init__(self, *arguments: Any, listing: Listing | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.listing = listing
        if listing is not None:
            for name in self.CRITERIA:
                del self.fields[name]
            self.fields["max_rate"].help_text = _(
                "The price you see now. Should it rise before the start, nothing is started."
            )

    @property
    def groups(self) -> list[tuple[Any, list[tuple[forms.BoundField, bool]]]]:
        """The fields as the page lays them out: (title, [(field, whether it takes the whole width)])."""
        return [
            (title, [(self[name], name in self.WIDE) for name in names if name in self.fields])
            for title, names in self.GROUPS
        ]

    def clean_command(self) -> tuple[str, ...]:
        try:
            return tuple(shlex.split(self.cleaned_data["command"]))
        except ValueError as error:
            raise forms.ValidationError(translate("A quote is not closed.")) from error

    def clean_time_limit_s(self) -> int:
        return int(self.cleaned_data["time_limit_s"] * HOUR)

    def clean_disconnect_grace_s(self) -> int:
        return int(self.cleaned_data["disconnect_grace_s"]) * MINUTE

    def spec(self) -> JobSpec:
        """The job as asked for, of a valid form."""
        data = self.cleaned_data
        listing_id: UUID | None = self.listing.pk if self.listing else None
        return JobSpec(
            name=data["name"],
            image=data["image"],
            command=data["command"],
            environment=data["environment"],
            secrets=data["secrets"],
            registry_username=data["registry_username"],
            registry_password=data["registry_password"],
            gpu_count=data["gpu_count"],
            listing_id=listing_id,
            model_slug=data.get("gpu_model") or None,
            max_rate_micro=data["max_rate"],
            min_reliability=data.get("min_reliability"),
            region=data.get("region", ""),
            country=data.get("country", ""),
            disk_gb=data["disk_gb"],
            time_limit_s=data["time_limit_s"],
            disconnect_grace_s=data["disconnect_grace_s"],
            max_attempts=data["max_attempts"],
        )


def job_initial(*, listing: Listing | None, template: str) -> dict[str, Any]:
    """What the form starts with: a template's image and command, a listing's price."""
    found = {name: value for name, value in TEMPLATES.get(template, {}).items() if name != "title"}
    if listing is not None and listing.rate_micro is not None:
        found["max_rate"] = format_usdc(listing.rate_micro).replace(",", "")
    return found


class RateForm(forms.Form):
    rate = UsdcField(label=_("USDC per GPU-hour"))


YEAR_MIN = 2020
"""Before there was anything here."""
RANGE_DAYS_MAX = 731
"""Two years: what a tax return may ask for, and what a page can show."""


def _day_input() -> forms.DateInput:
    # Browsers read ISO days only, whatever the language of the page.
    return forms.DateInput(format="%Y-%m-%d", attrs={"type": "date"})


class DateRangeForm(forms.Form):
    """Days in UTC, both included. One of them alone is that day."""

    since = forms.DateField(label=_("From"), required=False, widget=_day_input())
    until = forms.DateField(label=_("To"), required=False, widget=_day_input())

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if self.errors:
            return data
        since, until = data.get("since") or data.get("until"), data.get("until") or data.get("since")
        if since is None or until is None:
            self.add_error("since", translate("Say from when."))
        elif since > until:
            self.add_error("until", translate("It lies before the first day."))
        elif (until - since).days >= RANGE_DAYS_MAX:
            text = translate("Found %(found)s days; at most %(allowed)s at a time.")
            self.add_error("until", text % {"found": (until - since).days + 1, "allowed": RANGE_DAYS_MAX})
        elif until.year == MAXYEAR or since.year < YEAR_MIN:
            self.add_error("since", translate("There are no earnings that early or late."))
        return data | {"since": since, "until": until}


class SpendLimitsForm(forms.Form):
    """Both limits of a customer; an empty field is no limit. Field names are the service's periods."""

    day = UsdcField(label=_("In any 24 hours, in USDC"), required=False)
    month = UsdcField(label=_("In a calendar month (UTC), in USDC"), required=False, help_text=_("Empty: no limit."))


class DisputeForm(forms.Form):
    kind = forms.ChoiceField(label=_("What was wrong"), choices=Dispute.Kind.choices)
    words = forms.CharField(
        label=_("What happened"),
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text=_("Read by our staff, not by the provider."),
    )


class BankAccountForm(forms.Form):
    """The holder is no field: it is the name on the approved application."""

    account = forms.CharField(
        label=_("IBAN"),
        max_length=42,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text=_("An account in the euro payments area, in the name shown here."),
    )


class RerunForm(forms.Form):
    """What a job needs once more when it runs again: it was deleted with its end. No fields where there was nothing."""

    def __init__(self, *arguments: Any, job: Job, **options: Any) -> None:
        super().__init__(*arguments, **options)
        wanted = ["registry_username", "registry_password"] if job.private_image else []
        for name in [*wanted, *(["secrets"] if job.with_secrets else [])]:
            self.fields[name] = deepcopy(JobForm.base_fields[name])
            self.fields[name].required = True
