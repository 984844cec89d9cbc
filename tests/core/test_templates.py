from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django import forms
from django.template import engines
from django.utils import timezone

from core import clock
from core.badges import STATUSES, badge
from core.errors import Invalid
from core.forms import add_domain_error
from core.templatetags import gpunex

AT = datetime(2026, 3, 4, 23, 5, 6, tzinfo=UTC)


def show(text: str, **values: object) -> str:
    return engines["django"].from_string(text).render(values)


def test_money_unknown_is_a_dash_and_nothing_is_nothing() -> None:
    assert show("{{ a|usdc }} {{ b|usdc }} {{ c|usdc:6 }}", a=None, b=0, c=1_500_000) == "– 0.00 1.500000"


def test_an_instant_is_in_the_viewers_zone_with_utc_on_hover() -> None:
    with timezone.override(ZoneInfo("Asia/Shanghai")):
        html = show("{{ at|instant }}", at=AT)
    assert "5 Mar 2026, 07:05" in html and 'title="2026-03-04 23:05:06 UTC"' in html
    assert 'datetime="2026-03-04T23:05:06+00:00"' in html
    assert show("{{ at|instant }}", at=None) == "–"


@pytest.mark.parametrize(
    ("style", "text"), [("date", "4 Mar 2026"), ("time", "23:05"), ("seconds", "4 Mar 2026, 23:05:06")]
)
def test_an_instant_has_styles(style: str, text: str) -> None:
    assert f">{text}</time>" in gpunex.instant(AT, style)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-7200, "in 2 hours"), (5, "just now"), (3 * 60 + 59, "3 minutes ago"), (26 * 3600, "1 day ago")],
)
def test_how_long_ago(monkeypatch: pytest.MonkeyPatch, seconds: int, text: str) -> None:
    monkeypatch.setattr(clock, "now", lambda: AT)
    assert f">{text}</time>" in gpunex.ago(AT - timedelta(seconds=seconds)).replace("\xa0", " ")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0, "0 s"),
        (59, "59 s"),
        (249, "4 min 09 s"),
        (7500, "2 h 05 min"),
        (3 * 86400 + 4 * 3600, "3 d 04 h"),
    ],
)
def test_a_duration(seconds: int | None, text: str) -> None:
    assert gpunex.duration(seconds) == text


def test_a_badge_says_the_word_and_escapes_what_it_does_not_know() -> None:
    assert show("{% status_badge s %}", s="running") == '<span class="status status-busy">Running</span>'
    assert show("{% status_badge s %}", s="<b>") == '<span class="status status-idle">&lt;b&gt;</span>'
    assert badge(None) == ("idle", "Unknown")
    assert {tone for tone, _ in STATUSES.values()} == {"good", "busy", "warn", "bad", "idle"}


class TwoFields(forms.Form):
    quantity = forms.IntegerField(required=False)


def test_a_refusal_stands_beside_its_field() -> None:
    form = TwoFields({})
    assert form.is_valid()
    add_domain_error(form, Invalid.field("quantity", found=0, allowed="1 to 1024"))
    assert form.errors == {"quantity": ["Found 0; allowed: 1 to 1024."]}


def test_a_refusal_of_something_that_is_no_field_keeps_its_name() -> None:
    form = TwoFields({})
    assert form.is_valid()
    add_domain_error(form, Invalid("both", fields={"schedule": ["overlaps"]}))
    add_domain_error(form, Invalid("nothing named"))
    assert form.non_field_errors() == ["schedule: overlaps", "nothing named"]
