"""From a document to a file: which formats there are, and what the file is called."""

from __future__ import annotations

from dataclasses import dataclass

from billing.documents.drawing import pdf_bytes
from billing.documents.sheet import Sheet
from billing.documents.tables import csv_bytes

PDF, CSV = "pdf", "csv"
FORMATS: dict[str, tuple[str, ...]] = {"receipt": (PDF,), "monthly": (PDF, CSV), "payout": (PDF, CSV)}
TYPES = {PDF: "application/pdf", CSV: "text/csv; charset=utf-8"}


@dataclass(frozen=True, slots=True)
class File:
    """``name`` is made of letters, digits, ``-`` and ``.`` only, whoever the document is about."""

    name: str
    content_type: str
    content: bytes


def file_of(sheet: Sheet, form: str) -> File:
    """The file in the reader's language. Raises KeyError for a format this kind does not come in."""
    if form not in FORMATS[sheet.kind]:
        raise KeyError(form)
    content = pdf_bytes(sheet) if form == PDF else csv_bytes(sheet.label, sheet.facts)
    return File(f"gpunex-{sheet.kind}-{sheet.label}.{form}", TYPES[form], content)
