"""Filters every template may use: money, rates, instants."""

from __future__ import annotations

from django import template

from core.money import format_usdc

register = template.Library()


@register.filter
def usdc(amount_micro: int | None, places: int = 2) -> str:
    """Micro-USDC as text; unknown is a dash, never 0."""
    return "–" if amount_micro is None else format_usdc(amount_micro, places=places)
