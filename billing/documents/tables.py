"""A statement as CSV: one row per line, for spreadsheets and programs. The last column adds up to the document's total.

Text that a spreadsheet would take for a formula gets an apostrophe before it. Amounts never do: they are written by us as
plain decimals, so a negative one stays a number that can be added up.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from billing.documents.words import line_words, plain_usdc

COLUMNS = ("document", "kind", "description", "model", "gpu", "rental", "reference", "from_utc", "until_utc")
AMOUNTS = ("gross_usdc", "fee_usdc", "amount_usdc")
DANGEROUS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What begins a formula, or hides one from whoever looks at the first character; full-width forms count in East Asia."""
BYTE_ORDER_MARK = "\ufeff"
"""Without it Excel reads UTF-8 as the system's code page, and a Chinese name is noise."""


def text_cell(text: object) -> str:
    """Text for one cell that no spreadsheet takes for a formula; what is not there is empty."""
    found = "" if text is None else str(text)
    return f"'{found}" if found.startswith(DANGEROUS) else found


def csv_bytes(label: str, facts: Mapping[str, Any]) -> bytes:
    """The lines of a statement (RFC 4180, UTF-8 with a byte order mark; column names are stable, descriptions are not)."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow([*COLUMNS, *AMOUNTS])
    for line in facts["lines"]:
        texts = (
            *(label, line["kind"], line_words(line), line.get("model"), line.get("gpu"), line.get("rental")),
            *(line.get("reference"), line.get("from"), line.get("until")),
        )
        numbers = (line.get("gross_micro"), line.get("fee_micro"), line["amount_micro"])
        writer.writerow([*map(text_cell, texts), *("" if each is None else plain_usdc(each) for each in numbers)])
    return (BYTE_ORDER_MARK + out.getvalue()).encode()
