"""Names and labels that owners give their machines. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from core.errors import Invalid

NAME_LENGTH = 64
LABEL_LENGTH = 32
MOST_LABELS = 8
"""Enough for site, room, rack, contract and a few of one's own; more would not fit a row of the fleet."""
LABEL_ALLOWED = f"up to {MOST_LABELS} labels of 1 to {LABEL_LENGTH} characters, separated by commas"


def _tidy(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def _printable(text: str) -> bool:
    return all(unicodedata.category(character)[0] not in "CZ" or character == " " for character in text)


def name_clean(name: str) -> str:
    """The name with tidy blanks. Raises Invalid (name)."""
    found = _tidy(name)
    if not found or len(found) > NAME_LENGTH or not _printable(found):
        raise Invalid.field("name", found=found[:NAME_LENGTH], allowed=f"1 to {NAME_LENGTH} printable characters")
    return found


def labels_clean(labels: Iterable[str]) -> list[str]:
    """Labels without repetitions (upper and lower case are the same label; the first spelling counts), in order.

    Raises Invalid (labels).
    """
    found: dict[str, str] = {}
    for label in (_tidy(each) for each in labels):
        if not label:
            continue
        if len(label) > LABEL_LENGTH or not _printable(label) or "," in label:
            raise Invalid.field("labels", found=label[:LABEL_LENGTH], allowed=LABEL_ALLOWED)
        found.setdefault(label.casefold(), label)
    if len(found) > MOST_LABELS:
        raise Invalid.field("labels", found=f"{len(found)} labels", allowed=LABEL_ALLOWED)
    return sorted(found.values(), key=str.casefold)


def labels_split(text: str) -> list[str]:
    """Labels as people type them: separated by commas, Chinese ones too."""
    return text.replace("，", ",").split(",")
