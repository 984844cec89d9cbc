"""Search over ListingIndex: ids first (keyset, partial indexes), then the rows. Counts stop at 1,001.

A filter that means several models (memory) is turned into a set of models, each read in its own index order and merged:
``unnest(models) CROSS JOIN LATERAL (… LIMIT page)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from django.db import connection

from core.cursors import cursor_decode, cursor_encode
from core.errors import Invalid
from core.money import format_usdc, parse_usdc
from marketplace.models import Listing
from providers.models import GpuModel
from providers.places import COUNTRIES, REGIONS

PAGE = 50
COUNT_MAX = 1_000
"""More is shown as "1,000+": counting a million rows exactly helps nobody choose."""
FEATURED = 3
TIERS = ("enterprise", "community")

SORTS: dict[str, tuple[str, bool]] = {
    "rank": ("rank", True),
    "price": ("rate_micro", False),
    "performance": ("per_performance", False),
    "reliability": ("reliability", True),
}
"""{name in the URL: (index column, descending)}."""


@dataclass(frozen=True, kw_only=True)
class Filters:
    """What a visitor filters by; None or empty is "any". ``gpus``: free GPUs on one machine. Rates in micro-USDC."""

    model: str = ""
    gpus: int = 1
    memory_gb: int | None = None
    max_rate_micro: int | None = None
    region: str = ""
    country: str = ""
    reliability: Decimal | None = None
    tier: str = ""
    sort: str = "rank"

    def query(self) -> dict[str, str]:
        """The filters as URL parameters; defaults are left out, so that addresses are short and shareable."""
        found: dict[str, str] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if value != each.default:
                name = "max_price" if each.name == "max_rate_micro" else each.name
                found[name] = format_usdc(value).replace(",", "") if name == "max_price" else str(value)
        return found


@dataclass(frozen=True)
class Page:
    """One page of results. ``count`` stops at 1,001; ``featured`` are labelled enterprise rows above the first page."""

    listings: list[Listing]
    next_cursor: str | None
    count: int
    featured: list[Listing] = field(default_factory=list)

    @property
    def count_capped(self) -> bool:
        return self.count > COUNT_MAX


def filters_read(given: Mapping[str, str]) -> Filters:
    """Filters from URL parameters. Raises one Invalid naming every parameter that is wrong."""
    errors: dict[str, list[str]] = {}
    found: dict[str, Any] = {}

    def take(name: str, target: str, read: Any) -> None:
        text = str(given.get(name, "")).strip()
        if not text:
            return
        try:
            found[target] = read(name, text)
        except Invalid as error:
            errors.update(error.fields)

    take("model", "model", lambda name, text: _choice(name, text, _slugs()))
    take("gpus", "gpus", lambda name, text: _integer(name, text, 1, 32))
    take("memory_gb", "memory_gb", lambda name, text: _integer(name, text, 1, 1000))
    take("max_price", "max_rate_micro", _price)
    take("region", "region", lambda name, text: _choice(name, text, REGIONS))
    take("country", "country", lambda name, text: _choice(name, text.upper(), COUNTRIES))
    take("reliability", "reliability", _percent)
    take("tier", "tier", lambda name, text: _choice(name, text, TIERS))
    take("sort", "sort", lambda name, text: _choice(name, text, SORTS))
    if errors:
        raise Invalid("; ".join(f"{name}: {texts[0]}" for name, texts in errors.items()), fields=errors)
    return Filters(**found)


def _slugs() -> list[str]:
    return list(GpuModel.objects.order_by("slug").values_list("slug", flat=True))


def _choice(name: str, text: str, allowed: Any) -> str:
    if text not in allowed:
        raise Invalid.field(name, found=text[:40], allowed=", ".join(allowed))
    return text


def _integer(name: str, text: str, low: int, high: int) -> int:
    if not text.isdecimal() or not low <= int(text[:9]) <= high:
        raise Invalid.field(name, found=text[:20], allowed=f"{low} to {high}")
    return int(text)


def _price(name: str, text: str) -> int:
    amount = parse_usdc(text[:40], field=name)
    if amount <= 0:
        raise Invalid.field(name, found=text[:40], allowed="a positive price in USDC per GPU-hour")
    return amount


def _percent(name: str, text: str) -> Decimal:
    allowed = "0 to 100"
    try:
        value = Decimal(text[:12])
    except InvalidOperation:
        raise Invalid.field(name, found=text[:12], allowed=allowed) from None
    if not value.is_finite() or not 0 <= value <= 100:
        raise Invalid.field(name, found=text[:12], allowed=allowed)
    return value


@dataclass(frozen=True)
class _Where:
    """Conditions over the index row ``i``, and the models they allow (None: any)."""

    conditions: Sequence[str]
    parameters: Sequence[object]
    models: Sequence[UUID] | None


def _where(filters: Filters) -> _Where:
    conditions, parameters = ["i.rentable", "i.gpus_free >= %s"], [filters.gpus]
    tests: list[tuple[str, object]] = [
        ("i.rate_micro <= %s", filters.max_rate_micro),
        ("i.region = %s", filters.region or None),
        ("i.country = %s", filters.country or None),
        ("i.tier = %s", filters.tier or None),
        ("i.reliability >= %s", filters.reliability),
    ]
    values: list[object] = [*parameters]
    for condition, value in tests:
        if value is not None:
            conditions.append(condition)
            values.append(value)
    return _Where(conditions, values, _models(filters))


def _models(filters: Filters) -> list[UUID] | None:
    if not filters.model and filters.memory_gb is None:
        return None
    models = GpuModel.objects.all()
    if filters.model:
        models = models.filter(slug=filters.model)
    if filters.memory_gb is not None:
        models = models.filter(memory_gb__gte=filters.memory_gb)
    return list(models.order_by("pk").values_list("pk", flat=True))


def _statement(where: _Where, select: str, tail: str, limit: int) -> tuple[str, list[object]]:
    """``select`` rows of the index that fit, in ``tail``'s order, at most ``limit``: one index scan per model and merged."""
    conditions = " AND ".join(where.conditions)
    if where.models is None or len(where.models) == 1:
        models = " AND i.gpu_model_id = %s" if where.models else ""
        sql = f"SELECT {select} FROM marketplace_listingindex i WHERE {conditions}{models} {tail} LIMIT {limit}"
        return sql, [*where.parameters, *[str(model) for model in where.models or []]]
    sql = (
        f"SELECT {select} FROM unnest(%s::uuid[]) AS model (id) CROSS JOIN LATERAL ("
        f" SELECT i.* FROM marketplace_listingindex i WHERE i.gpu_model_id = model.id AND {conditions}"
        f" {tail} LIMIT {limit}) i {tail} LIMIT {limit}"
    )
    return sql, [[str(model) for model in where.models], *where.parameters]


def _rows(sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())


def listings_search(filters: Filters, *, cursor: str = "", size: int = PAGE) -> Page:
    """The page after ``cursor`` (empty: the first). Raises Invalid (field ``cursor``) for one we did not make for this sort."""
    where = _where(filters)
    column, descending = SORTS[filters.sort]
    direction, compare = ("DESC", "<") if descending else ("ASC", ">")
    after = where
    if cursor:
        last, last_id = _after(cursor, filters)
        after = replace(
            where,
            conditions=[*where.conditions, f"(i.{column}, i.listing_id) {compare} (%s, %s)"],
            parameters=[*where.parameters, last, last_id],
        )
    tail = f"ORDER BY i.{column} {direction}, i.listing_id {direction}"
    found = _rows(*_statement(after, f"i.listing_id, i.{column}", tail, size + 1))
    page = found[:size]
    more = cursor_encode([str(page[-1][1]), str(page[-1][0])], scope=_scope(filters)) if len(found) > size else None
    featured = _featured(filters, where) if not cursor and filters.sort == "rank" else []
    listings = listings_load([*featured, *(row[0] for row in page)])
    return Page(
        [listings[row[0]] for row in page if row[0] in listings],
        more,
        listings_count(filters),
        [listings[each] for each in featured if each in listings],
    )


def _scope(filters: Filters) -> str:
    return f"market:{filters.sort}"


def _after(cursor: str, filters: Filters) -> tuple[Decimal, str]:
    value, key = cursor_decode(cursor, scope=_scope(filters))
    return Decimal(str(value)), str(key)


def _featured(filters: Filters, where: _Where) -> list[UUID]:
    """Up to three enterprise listings, best rank first: labelled, on top, and again in their own place below."""
    if filters.tier:
        return []
    enterprise = replace(
        where, conditions=[*where.conditions, "i.tier = %s"], parameters=[*where.parameters, "enterprise"]
    )
    tail = "ORDER BY i.rank DESC, i.listing_id DESC"
    return [row[0] for row in _rows(*_statement(enterprise, "i.listing_id, i.rank", tail, FEATURED))]


def listings_load(ids: Sequence[UUID]) -> dict[UUID, Listing]:
    """The rows of a page with what a table shows of them, in one query."""
    rows = Listing.objects.filter(pk__in=ids, visible=True)
    return {row.pk: row for row in rows.select_related("gpu_model", "provider__party")}


def listings_count(filters: Filters) -> int:
    """How many listings fit, counted up to 1,001."""
    sql, parameters = _statement(_where(filters), "i.listing_id", "", COUNT_MAX + 1)
    return int(_rows(f"SELECT count(*) FROM ({sql}) found", parameters)[0][0])


RELAXED: dict[str, dict[str, Any]] = {
    "gpus": {"gpus": 1},
    "model": {"model": ""},
    "memory_gb": {"memory_gb": None},
    "max_price": {"max_rate_micro": None},
    "region": {"region": ""},
    "country": {"country": ""},
    "reliability": {"reliability": None},
    "tier": {"tier": ""},
}


def filters_to_relax(filters: Filters) -> dict[str, Filters]:
    """For an empty result: {parameter: the filters without it} for each one that alone would bring results."""
    found: dict[str, Filters] = {}
    for name, change in RELAXED.items():
        relaxed = replace(filters, **change)
        if relaxed != filters:
            sql, parameters = _statement(_where(relaxed), "i.listing_id", "", 1)
            if _rows(sql, parameters):
                found[name] = relaxed
    return found
