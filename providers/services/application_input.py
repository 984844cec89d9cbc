"""What an applicant says, and the rules it must keep. A draft may have gaps; what is given must be right even there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.utils.translation import gettext as _

from core.errors import Invalid
from providers.models import Application, ApplicationGpuGroup, GpuModel
from providers.places import served
from providers.schedules import windows_parse, zones

OTHER = "other"
"""Stands where a catalogue slug would, for a card we do not list."""
MAX_GROUPS = 20
QUANTITY = (1, 1024)
"""A group is like cards in one place; a thousand is a hall, and a hall is several groups."""
HOST_MEMORY_GB = (1, 24_576)
SPEED_MBPS = (1, 400_000)
"""From 1 Mbit/s to a 400 Gbit/s port."""
GBPS = 1000
NAME_LENGTH, NOTE_LENGTH, PLACE_LENGTH = 120, 2000, 80

Problem = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class GpuGroupInput:
    """One group of like cards. ``gpu_model``: a catalogue slug, OTHER, or empty. Speeds in Gbit/s. Null: not given."""

    gpu_model: str = ""
    other_model: str = ""
    quantity: int | None = None
    host_memory_gb: int | None = None
    upload_gbps: Decimal | None = None
    download_gbps: Decimal | None = None
    always_on: bool = True
    schedule_zone: str = ""
    windows: list[dict[str, Any]] = field(default_factory=list)
    city: str = ""
    country: str = ""
    region: str = ""


@dataclass(frozen=True, kw_only=True)
class ApplicationInput:
    legal_name: str = ""
    email: str = ""
    company: str = ""
    ups: str = ""
    commitment_months: int | None = None
    maintenance_note: str = ""
    groups: tuple[GpuGroupInput, ...] = ()


def application_check(data: ApplicationInput, *, complete: bool) -> None:
    """Raise Invalid with every problem at once: ``{"legal_name": …, "groups.0.quantity": …}``."""
    known = set(GpuModel.objects.filter(supported=True).values_list("slug", flat=True))
    problems = [*_given(data, known), *(_missing(data) if complete else ())]
    fields: dict[str, list[str]] = {}
    for name, sentence in problems:
        fields.setdefault(name, []).append(sentence)
    if fields:
        raise Invalid(_("The application has mistakes or gaps; each is named beside its field."), fields=fields)


def _sentence(found: object, allowed: object) -> str:
    return _("Found %(found)s; allowed: %(allowed)s.") % {"found": found, "allowed": allowed}


def _given(data: ApplicationInput, known: set[str]) -> Iterator[Problem]:
    """Problems with what was given, whether or not everything was."""
    yield from _length("legal_name", data.legal_name, NAME_LENGTH)
    yield from _length("company", data.company, NAME_LENGTH)
    yield from _length("maintenance_note", data.maintenance_note, NOTE_LENGTH)
    if data.email:
        try:
            validate_email(data.email)
        except ValidationError:
            yield "email", _sentence(data.email[:80], _("an e-mail address"))
    if data.ups and data.ups not in Application.Ups.values:
        yield "ups", _sentence(data.ups, ", ".join(Application.Ups.values))
    if data.commitment_months is not None and data.commitment_months not in Application.Commitment.values:
        yield "commitment_months", _sentence(data.commitment_months, "0, 3, 6, 12")
    if len(data.groups) > MAX_GROUPS:
        yield "groups", _sentence(len(data.groups), _("at most %(most)d groups") % {"most": MAX_GROUPS})
    for number, group in enumerate(data.groups[:MAX_GROUPS]):
        for name, sentence in _given_group(group, known):
            yield f"groups.{number}.{name}", sentence


def _length(name: str, text: str, most: int) -> Iterator[Problem]:
    if len(text) > most:
        yield name, _sentence(len(text), _("at most %(most)d characters") % {"most": most})


def _within(name: str, value: int | None, bounds: tuple[int, int]) -> Iterator[Problem]:
    if value is not None and not bounds[0] <= value <= bounds[1]:
        yield name, _sentence(f"{value:,}", f"{bounds[0]:,} – {bounds[1]:,}")


def _given_group(group: GpuGroupInput, known: set[str]) -> Iterator[Problem]:
    if group.gpu_model and group.gpu_model != OTHER and group.gpu_model not in known:
        yield "gpu_model", _sentence(group.gpu_model[:40], _("a model of the list, or “other”"))
    yield from _length("other_model", group.other_model, PLACE_LENGTH)
    yield from _within("quantity", group.quantity, QUANTITY)
    yield from _within("host_memory_gb", group.host_memory_gb, HOST_MEMORY_GB)
    yield from _speed("upload_gbps", group.upload_gbps)
    yield from _speed("download_gbps", group.download_gbps)
    yield from _length("city", group.city, PLACE_LENGTH)
    yield from _length("region", group.region, PLACE_LENGTH)
    if group.country and not served(group.country):
        yield "country", _sentence(group.country[:40], _("a country that we serve"))
    if not group.always_on:
        if group.schedule_zone and group.schedule_zone not in zones():
            yield "schedule_zone", _sentence(group.schedule_zone[:64], _("a time zone such as Europe/Berlin"))
        try:
            windows_parse(group.windows)
        except Invalid as error:
            for name, sentences in error.fields.items():
                for sentence in sentences:
                    yield name, sentence


def _speed(name: str, gbps: Decimal | None) -> Iterator[Problem]:
    if gbps is None:
        return
    least, most = (Decimal(bound) / GBPS for bound in SPEED_MBPS)
    if not gbps.is_finite() or not least <= gbps <= most or gbps * GBPS != int(gbps * GBPS):
        yield (
            name,
            _sentence(gbps, _("%(least)s – %(most)s Gbit/s, in steps of 0.001") % {"least": least, "most": most}),
        )


def _missing(data: ApplicationInput) -> Iterator[Problem]:
    """Problems with what was not given."""
    wanted = {
        "legal_name": (data.legal_name.strip(), _("your full legal name")),
        "email": (data.email, _("an e-mail address")),
        "ups": (data.ups, ", ".join(Application.Ups.values)),
        "commitment_months": (data.commitment_months is not None, "0, 3, 6, 12"),
        "groups": (data.groups, _("at least one group of GPUs")),
    }
    for number, group in enumerate(data.groups):
        wanted |= {f"groups.{number}.{name}": needed for name, needed in _wanted_group(group).items()}
    for name, (present, allowed) in wanted.items():
        if not present:
            yield name, _sentence(_("nothing"), allowed)


def _wanted_group(group: GpuGroupInput) -> dict[str, tuple[object, str]]:
    wanted: dict[str, tuple[object, str]] = {
        "gpu_model": (group.gpu_model, _("a model of the list, or “other”")),
        "quantity": (group.quantity is not None, f"{QUANTITY[0]:,} – {QUANTITY[1]:,}"),
        "host_memory_gb": (group.host_memory_gb is not None, _("the memory of the host in GB")),
        "upload_gbps": (group.upload_gbps is not None, _("the speed you measured, in Gbit/s")),
        "download_gbps": (group.download_gbps is not None, _("the speed you measured, in Gbit/s")),
        "city": (group.city.strip(), _("the city where it stands")),
        "country": (group.country, _("the country where it stands")),
    }
    if group.gpu_model == OTHER:
        wanted["other_model"] = (group.other_model.strip(), _("which model it is"))
    if not group.always_on:
        wanted["schedule_zone"] = (group.schedule_zone, _("a time zone such as Europe/Berlin"))
        wanted["windows"] = (group.windows, _("at least one window, or 24/7"))
    return wanted


def group_rows(application: Application, data: ApplicationInput) -> list[ApplicationGpuGroup]:
    """Unsaved rows for the groups of checked ``data``."""
    models = {model.slug: model for model in GpuModel.objects.all()}
    return [
        ApplicationGpuGroup(
            application=application,
            position=position,
            gpu_model=models.get(group.gpu_model),
            other=group.gpu_model == OTHER,
            other_model=group.other_model.strip() if group.gpu_model == OTHER else "",
            quantity=group.quantity,
            host_memory_gb=group.host_memory_gb,
            upload_mbps=_mbps(group.upload_gbps),
            download_mbps=_mbps(group.download_gbps),
            always_on=group.always_on,
            schedule_zone="" if group.always_on else group.schedule_zone,
            windows=[] if group.always_on else group.windows,
            city=group.city.strip(),
            country=group.country,
            region=group.region.strip(),
        )
        for position, group in enumerate(data.groups)
    ]


def _mbps(gbps: Decimal | None) -> int | None:
    return None if gbps is None else int(gbps * GBPS)


def application_input(application: Application) -> ApplicationInput:
    """A stored application as its input: what the form shows, and what a check at submission reads."""
    groups = tuple(
        GpuGroupInput(
            gpu_model=row.gpu_model.slug if row.gpu_model else OTHER if row.other else "",
            other_model=row.other_model,
            quantity=row.quantity,
            host_memory_gb=row.host_memory_gb,
            upload_gbps=row.upload_gbps,
            download_gbps=row.download_gbps,
            always_on=row.always_on,
            schedule_zone=row.schedule_zone,
            windows=row.windows,
            city=row.city,
            country=row.country,
            region=row.region,
        )
        for row in application.groups.select_related("gpu_model").order_by("position")
    )
    return ApplicationInput(
        legal_name=application.legal_name,
        email=application.email,
        company=application.company,
        ups=application.ups,
        commitment_months=application.commitment_months,
        maintenance_note=application.maintenance_note,
        groups=groups,
    )
