"""What the facts of a document are called, in the reader's language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

Line = Mapping[str, Any]

TITLES: dict[str, str | Promise] = {
    "receipt": _("Receipt"),
    "monthly": _("Monthly statement"),
    "payout": _("Payout statement"),
}
KINDS: dict[str, str | Promise] = {
    "brought_forward": _("Brought forward"),
    "earnings": _("Earnings"),
    "service_credit": _("Service credit"),
    "dispute": _("Given back after a dispute"),
    "payout_reserved": _("Payout"),
    "payout_cancelled": _("Payout that was cancelled, back to payable"),
    "payout_returned": _("Payout that came back, payable again"),
    "carried_forward": _("Carried to the next payout"),
    "deposit": _("Deposit"),
    "deposit_claimed": _("Deposit"),
    "withdrawal_reserved": _("Withdrawal"),
    "withdrawal_cancelled": _("Withdrawal that was cancelled"),
    "usage": _("GPU usage"),
    "adjustment": _("Adjustment"),
}


def kind_words(kind: str) -> str:
    """A kind nobody listed shows as it is, without underscores."""
    return str(KINDS.get(kind, kind.replace("_", " ").capitalize()))


def line_words(line: Line) -> str:
    """One line in words: what it is, of which job or GPU."""
    parts = [kind_words(line["kind"])]
    if name := line.get("name"):
        parts.append(str(name))
    if model := line.get("model"):
        gpus = line.get("gpus") or 1
        parts.append(f"{gpus} × {model}" if gpus > 1 else str(model))
    if "name" not in line and "gpu" in line:
        parts.append(gettext("GPU %(number)s") % {"number": short(line["gpu"])})
    return " · ".join(parts)


def short(key: str) -> str:
    """The last block of a UUID: enough to tell one from the other on a page."""
    return key.rsplit("-", 1)[-1]


def days_words(line: Line) -> str:
    """The UTC day or days of a line, as ISO dates."""
    first, last = str(line.get("from", ""))[:10], str(line.get("until", ""))[:10]
    return first if first == last else f"{first} – {last}"


def plain_usdc(amount_micro: int) -> str:
    """Micro-USDC as every program reads it: ``-1234.500000``, no separators, always six decimals."""
    sign, (whole, rest) = "-" if amount_micro < 0 else "", divmod(abs(amount_micro), 1_000_000)
    return f"{sign}{whole}.{rest:06d}"


def grouped_usdc(amount_micro: int) -> str:
    """The same for people: ``-1,234.500000``."""
    sign, (whole, rest) = "-" if amount_micro < 0 else "", divmod(abs(amount_micro), 1_000_000)
    return f"{sign}{whole:,}.{rest:06d}"


def summary(lines: Sequence[Line]) -> list[tuple[str, int]]:
    """(words, amount) per kind, in the order of the lines; earnings as what customers paid and the fee. Adds up to them."""
    sums: dict[str, list[int]] = {}
    for line in lines:
        found = sums.setdefault(line["kind"], [0, 0, 0])
        found[0] += line.get("gross_micro", line["amount_micro"])
        found[1] += line.get("fee_micro", 0)
        found[2] += line["amount_micro"]
    rows: list[tuple[str, int]] = []
    for kind, (gross, fee, amount) in sums.items():
        if kind == "earnings":
            rows += [(gettext("Charged to customers"), gross), (gettext("Platform fee"), -fee)]
        else:
            rows.append((kind_words(kind), amount))
    return rows
