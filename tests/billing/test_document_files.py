"""PDF and CSV of documents: what is in them, in both languages, and what a hostile name cannot do."""

from __future__ import annotations

import csv
import io
from typing import Any
from uuid import uuid4

import pytest
from django.utils import translation
from pypdf import PdfReader

from billing.documents import Sheet, file_of
from billing.documents.drawing import LINES_MAX, lines_drawn
from billing.documents.tables import text_cell
from billing.documents.words import plain_usdc, summary

USDC = 1_000_000
NAME = "王喆镕 智算（上海）有限公司"


def sheet(kind: str = "payout", *, lines: list[dict[str, Any]] | None = None, name: str = NAME) -> Sheet:
    lines = earnings(3) if lines is None else lines
    total = sum(line["amount_micro"] for line in lines)
    facts = {
        "issuer": {"name": "GPUnex", "address": "", "url": "https://gpunex.example"},
        "addressee": {"name": name, "handle": "ada"},
        "lines": lines,
        "address": "9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin",
        "signature": "5VERv8NMvzbJMEkV8xnrLkEaWRtSz9",
        "sender": "So11111111111111111111111111111111111111112",
        "settled_at": "2026-11-09T00:12:44+00:00",
        "credited_at": "2026-11-02T00:00:00+00:00",
        "payout": str(uuid4()),
        "opening_micro": 50 * USDC,
        "closing_micro": 50 * USDC + total,
    }
    return Sheet("P-2026-000012", kind, "2026-11-09", ("2026-11-02", "2026-11-08"), total, "ab" * 32, facts)


def earnings(count: int, **more: Any) -> list[dict[str, Any]]:
    day = "2026-11-03T10:00:00+00:00"
    return [
        {
            "kind": "earnings",
            "rental": str(uuid4()),
            "gpu": f"00000000-0000-0000-0000-{number % 7:012d}",
            "model": "H100",
            "from": day,
            "until": day,
            "gross_micro": 10 * USDC + number,
            "fee_micro": USDC,
            "amount_micro": 9 * USDC + number,
            **more,
        }
        for number in range(count)
    ]


def text_of(content: bytes) -> str:
    return "\n".join(page.extract_text() for page in PdfReader(io.BytesIO(content)).pages)


def rows_of(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))


def test_the_pdf_says_what_was_issued() -> None:
    text = text_of(file_of(sheet(), "pdf").content)
    for part in ("Payout statement", "P-2026-000012", NAME, "30.000003", "-3.000000", "27.000003 USDC", "Page 1 of 1"):
        assert part in text


def test_the_pdf_speaks_chinese() -> None:
    with translation.override("zh-hans"):
        text = text_of(file_of(sheet("monthly"), "pdf").content)
    assert NAME in text and "月度对账单" in text and "期末余额" in text


@pytest.mark.parametrize("kind", ["receipt", "monthly", "payout"])
def test_the_pdf_embeds_its_font_and_loads_nothing(kind: str) -> None:
    content = file_of(sheet(kind, name="<img src='file:///etc/passwd'/><b>x"), "pdf").content
    assert "<img src='file:///etc/passwd'/><b>x" in text_of(content)
    page = PdfReader(io.BytesIO(content)).pages[0]
    fonts = [font.get_object() for font in page["/Resources"]["/Font"].values()]  # type: ignore[index]
    drawn = [font for font in fonts if "NotoSansSC" in str(font["/BaseFont"])]
    assert drawn and all("/FontFile2" in font["/FontDescriptor"].get_object() for font in drawn)
    assert not page["/Resources"].get("/XObject")  # type: ignore[union-attr]


def test_the_same_facts_are_the_same_bytes() -> None:
    one = sheet()
    assert file_of(one, "pdf").content == file_of(one, "pdf").content


def test_control_and_direction_characters_are_not_drawn() -> None:
    text = text_of(file_of(sheet(name="Ada\x00\u202egnp.exe\ud800"), "pdf").content)
    assert "Adagnp.exe" in text


def test_many_lines_run_over_pages_with_their_head_on_each() -> None:
    reader = PdfReader(io.BytesIO(file_of(sheet(lines=earnings(120)), "pdf").content))
    assert len(reader.pages) > 2
    for number, page in enumerate(reader.pages, 1):
        assert "Charged" in page.extract_text() and f"Page {number} of {len(reader.pages)}" in page.extract_text()


def test_very_many_lines_are_added_up_per_gpu_and_then_per_model() -> None:
    lines = earnings(LINES_MAX + 1)
    drawn, merged = lines_drawn(lines)
    assert merged and len(drawn) == 7
    assert sum(line["amount_micro"] for line in drawn) == sum(line["amount_micro"] for line in lines)
    own = [{**line, "gpu": str(uuid4())} for line in lines]
    assert len(lines_drawn(own)[0]) == 1
    assert lines_drawn(lines[:LINES_MAX]) == (lines[:LINES_MAX], False)
    assert f"{LINES_MAX + 1} lines are added up here" in text_of(file_of(sheet(lines=lines), "pdf").content)


def test_the_csv_adds_up_and_its_negative_amounts_are_numbers() -> None:
    credit = earnings(1, kind="service_credit", gross_micro=-5 * USDC, fee_micro=-500_000, amount_micro=-4_500_000)
    found = file_of(sheet(lines=[*earnings(2), *credit, {"kind": "carried_forward", "amount_micro": -1}]), "csv")
    assert (found.content_type, found.name) == ("text/csv; charset=utf-8", "gpunex-payout-P-2026-000012.csv")
    rows = rows_of(found.content)
    assert [row["amount_usdc"] for row in rows] == ["9.000000", "9.000001", "-4.500000", "-0.000001"]
    assert (rows[2]["gross_usdc"], rows[2]["fee_usdc"], rows[3]["fee_usdc"]) == ("-5.000000", "-0.500000", "")
    assert sum(int(row["amount_usdc"].replace(".", "")) for row in rows) == 13_500_000


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"])
def test_a_name_is_never_a_formula(first: str) -> None:
    hostile = f'{first}HYPERLINK("https://evil.example";"x")'
    assert text_cell(hostile) == f"'{hostile}"
    lines = [{"kind": "x", "model": hostile, "reference": hostile, "amount_micro": 5}]
    (row,) = rows_of(file_of(sheet("monthly", lines=lines), "csv").content)
    assert (row["model"], row["reference"]) == (f"'{hostile}", f"'{hostile}")
    assert not any(str(value).startswith(first) for value in row.values())


@pytest.mark.parametrize("harmless", ["", "a=b", "rack-4", "王", "1.5"])
def test_other_text_stays_as_it_is(harmless: str) -> None:
    assert text_cell(harmless) == harmless


def test_amounts_in_plain_decimals() -> None:
    assert [plain_usdc(each) for each in (0, 1, -1, 1_234_500_000, -4_500_000)] == [
        *("0.000000", "0.000001", "-0.000001", "1234.500000", "-4.500000")
    ]


def test_the_summary_adds_up() -> None:
    lines = [*earnings(4), {"kind": "brought_forward", "amount_micro": -7}, {"kind": "odd_thing", "amount_micro": 3}]
    rows = summary(lines)
    assert [words for words, _amount in rows] == [
        "Charged to customers",
        "Platform fee",
        "Brought forward",
        "Odd thing",
    ]
    assert sum(amount for _words, amount in rows) == sum(line["amount_micro"] for line in lines)


def test_a_receipt_is_a_pdf_only() -> None:
    with pytest.raises(KeyError):
        file_of(sheet("receipt"), "csv")
