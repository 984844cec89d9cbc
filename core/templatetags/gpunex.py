"""Filters and tags every template may use: money, instants, durations, status badges."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from django import template
from django.utils import formats, timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince
from django.utils.translation import gettext as _

from core import clock
from core.badges import badge
from core.money import format_cents, format_usdc

register = template.Library()

UNKNOWN = "–"
"""How a missing reading is shown. Unknown is never 0."""


@register.filter
def usdc(amount_micro: int | None, places: int = 2) -> str:
    """Micro-USDC as text; unknown is a dash, never 0."""
    return UNKNOWN if amount_micro is None else format_usdc(amount_micro, places=places)


@register.filter
def cents(amount: int | None) -> str:
    """A currency's cents as text; unknown is a dash."""
    return UNKNOWN if amount is None else format_cents(amount)


def _time_element(at: datetime, text: str, hover: str) -> SafeString:
    return format_html('<time datetime="{}" title="{}">{}</time>', at.isoformat(timespec="seconds"), hover, text)


def _utc(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


@register.filter
def instant(at: datetime | None, style: str = "both") -> str:
    """An instant in the viewer's zone, with UTC on hover. ``style``: both | date | time | seconds."""
    if at is None:
        return UNKNOWN
    here = timezone.localtime(at)
    day = formats.date_format(here, "DATE_FORMAT")
    texts = {"both": f"{day}, {here:%H:%M}", "date": day, "time": f"{here:%H:%M}", "seconds": f"{day}, {here:%H:%M:%S}"}
    return _time_element(at, texts[style], _utc(at))


@register.filter
def ago(at: datetime | None) -> str:
    """How long ago an instant was, in one unit, with the instant and UTC on hover."""
    if at is None:
        return UNKNOWN
    now = clock.now()
    if at > now:
        text = _("in %(time)s") % {"time": timesince(now, at, depth=1)}
    elif (now - at).total_seconds() < 60:
        text = _("just now")
    else:
        text = _("%(time)s ago") % {"time": timesince(at, now, depth=1)}
    return _time_element(at, text, _utc(at))


@register.filter
def duration(seconds: int | None) -> str:
    """Seconds as ``3 d 04 h``, ``2 h 05 min``, ``4 min 09 s`` or ``12 s``; unknown is a dash."""
    if seconds is None:
        return UNKNOWN
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return _("%(days)d d %(hours)02d h") % {"days": days, "hours": hours}
    if hours:
        return _("%(hours)d h %(minutes)02d min") % {"hours": hours, "minutes": minutes}
    if minutes:
        return _("%(minutes)d min %(seconds)02d s") % {"minutes": minutes, "seconds": rest}
    return _("%(seconds)d s") % {"seconds": rest}


@register.filter
def known(value: object) -> object:
    """The value, or a dash where it is unknown (None, or nothing to print). 0 stays 0."""
    return UNKNOWN if value is None or value == "" else value


@register.filter
def entry(found: Mapping[object, object], key: object) -> object | None:
    """What a mapping has under a key that is a variable; None where it has nothing."""
    return found.get(key)


@register.simple_tag
def status_badge(status: str | None, label: str | None = None) -> SafeString:
    """A status as a small badge: a tone and a word, never a colour alone. ``label`` replaces the word."""
    tone, word = badge(status)
    return format_html('<span class="status status-{}">{}</span>', tone, label or word)
