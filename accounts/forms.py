from __future__ import annotations

from zoneinfo import available_timezones

from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy as _


def _zones() -> list[tuple[str, str]]:
    """Zones people know: Region/City, and UTC."""
    regions = {"Africa", "America", "Antarctica", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific"}
    names = sorted(name for name in available_timezones() if name.partition("/")[0] in regions)
    return [("UTC", "UTC"), *((name, name.replace("_", " ")) for name in names)]


class ProfileForm(forms.Form):
    name = forms.CharField(
        label=_("Name"), max_length=120, required=False, help_text=_("How we address you. Others never see it.")
    )
    language = forms.ChoiceField(
        label=_("Language"), choices=settings.LANGUAGES, help_text=_("Of these pages and of the mails we send you.")
    )
    time_zone = forms.ChoiceField(
        label=_("Time zone"), choices=_zones, help_text=_("Times are shown in this zone, with UTC on hover.")
    )
