"""A receipt or statement as PDF (reportlab, one embedded font). The same facts in the same language give the same bytes.

Names come from people, so every text is escaped before reportlab reads its markup: an ``<img src=…>`` is printed, not loaded.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from django.utils.translation import get_language
from django.utils.translation import gettext as _
from reportlab.lib.colors import HexColor
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Flowable, LongTable, Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle

from billing.documents.sheet import Sheet
from billing.documents.words import TITLES, Line, days_words, grouped_usdc, line_words, summary

FONT, FONT_FILE = "NotoSansSC", Path(__file__).parent / "fonts" / "NotoSansSC-Regular.ttf"
MARGIN = 18 * mm
WIDTH = A4[0] - 2 * MARGIN
INK, SOFT, LINE, ACCENT = HexColor("#1c2530"), HexColor("#5a6673"), HexColor("#d5dbe1"), HexColor("#0b6e69")
LINES_MAX = 400
"""More lines than fifteen pages are read by nobody: they are drawn per GPU, or per model, and the CSV has each."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_IDEOGRAPHS = re.compile(r"[\u2e80-\u9fff\uff00-\uffef]")


def pdf_bytes(sheet: Sheet) -> bytes:
    """The PDF in the active language."""
    _font()
    out = io.BytesIO()
    title = f"{TITLES[sheet.kind]} {sheet.label}"
    document = SimpleDocTemplate(
        out,
        pagesize=A4,
        leftMargin=MARGIN,
        rightMargin=MARGIN,
        topMargin=MARGIN,
        bottomMargin=24 * mm,
        title=title,
        author=_clean(sheet.facts["issuer"]["name"]),
        lang=get_language() or "en",
        invariant=1,
    )
    document.build(list(_story(sheet)), canvasmaker=_paged(sheet))
    return out.getvalue()


@cache
def _font() -> None:
    pdfmetrics.registerFont(TTFont(FONT, str(FONT_FILE)))


def _clean(text: object) -> str:
    """Without control characters, and without those that turn the direction of what follows."""
    return _CONTROL.sub("", str(text))


def _style(size: float, *, color: Any = INK, align: int = 0, cjk: bool = False) -> ParagraphStyle:
    return ParagraphStyle(
        f"s{size}",
        fontName=FONT,
        fontSize=size,
        leading=size * 1.4,
        textColor=color,
        alignment=align,
        # Latin words break between words, ideographs anywhere.
        wordWrap="CJK" if cjk else None,
    )


def _text(text: object, size: float = 9, *, color: Any = INK, align: int = 0) -> Paragraph:
    cleaned = _clean(text)
    style = _style(size, color=color, align=align, cjk=bool(_IDEOGRAPHS.search(cleaned)))
    return Paragraph(escape(cleaned), style)


def _story(sheet: Sheet) -> Iterable[Flowable]:
    yield _head(sheet)
    yield Spacer(1, 8 * mm)
    yield _pairs(_about(sheet))
    yield Spacer(1, 6 * mm)
    yield _sums(sheet)
    if sheet.kind != "receipt":
        yield Spacer(1, 8 * mm)
        yield _alone(_text(_("Lines"), 12))
        lines, merged = lines_drawn(sheet.facts["lines"])
        yield _lines(sheet.kind, lines)
        if merged:
            yield Spacer(1, 2 * mm)
            text = _("%(count)s lines are added up here; the CSV file has each of them.")
            yield _alone(_text(text % {"count": len(sheet.facts["lines"])}, 8, color=SOFT))


def _alone(text: Paragraph) -> Flowable:
    """A paragraph that begins where the tables begin."""
    return Table([[text]], colWidths=[WIDTH], style=TableStyle(_flush()))


def _head(sheet: Sheet) -> Flowable:
    issuer, addressee = sheet.facts["issuer"], sheet.facts["addressee"]
    left: list[Flowable] = [_text(issuer["name"], 15, color=ACCENT)]
    left += [_text(each, 8, color=SOFT) for each in (issuer["address"], issuer["url"]) if each]
    left += [Spacer(1, 7 * mm), _text(_("Issued to"), 8, color=SOFT), _text(addressee["name"], 11)]
    left += [_text(f"@{addressee['handle']}", 8, color=SOFT)]
    right = [
        _text(TITLES[sheet.kind], 15, align=2),
        _text(_("Number %(label)s") % {"label": sheet.label}, 9, align=2),
        _text(_("Issued %(day)s") % {"day": sheet.issued_on}, 9, align=2),
    ]
    if sheet.period is not None:
        right.append(_text(" – ".join(sheet.period), 9, align=2))
    style = TableStyle([("VALIGN", (0, 0), (-1, -1), "TOP"), *_flush()])
    return Table([[left, right]], colWidths=[WIDTH * 0.55, WIDTH * 0.45], style=style)


def _about(sheet: Sheet) -> list[tuple[str, str]]:
    facts = sheet.facts
    if sheet.kind == "receipt":
        rows = [
            (_("Received"), "USDC (Solana)"),
            (_("From wallet"), facts["sender"]),
            (_("Transaction"), facts["signature"]),
            (_("Credited (UTC)"), _instant(facts["credited_at"])),
        ]
    elif sheet.kind == "payout":
        rows = [
            (_("Paid to"), facts["address"]),
            (_("Transaction"), facts["signature"]),
            # By bank only; statements of earlier days have none of these.
            (_("Amount"), facts.get("bank_amount", "")),
            (_("Rate"), facts.get("bank_rate", "")),
            (_("Reference"), facts.get("bank_reference", "")),
            (_("Settled (UTC)"), _instant(facts["settled_at"])),
            (_("Payout"), facts["payout"]),
        ]
    else:
        rows = []
    return [(name, text) for name, text in rows if text]


def _instant(text: str | None) -> str:
    return text[:19].replace("T", " ") if text else ""


def _pairs(rows: Sequence[tuple[str, str]]) -> Flowable:
    if not rows:
        return Spacer(1, 0)
    cells = [[_text(name, 8, color=SOFT), _text(text, 8.5)] for name, text in rows]
    style = TableStyle([("VALIGN", (0, 0), (-1, -1), "TOP"), *_flush()])
    return Table(cells, colWidths=[34 * mm, WIDTH - 34 * mm], style=style)


def _sums(sheet: Sheet) -> Flowable:
    facts = sheet.facts
    rows = summary(facts["lines"])
    if sheet.kind == "monthly":
        rows = [(_("Opening balance"), facts["opening_micro"]), *rows]
        total = (_("Closing balance"), facts["closing_micro"])
    elif sheet.kind == "payout":
        total = (_("Paid out"), sheet.total_micro)
    else:
        total = (_("Total"), sheet.total_micro)
    cells = [[_text(words, 9.5), f"{grouped_usdc(amount)}"] for words, amount in rows]
    cells.append([_text(total[0], 11), f"{grouped_usdc(total[1])} USDC"])
    style = TableStyle(
        [
            ("FONT", (1, 0), (1, -2), FONT, 9.5),
            ("FONT", (1, -1), (1, -1), FONT, 11),
            ("TEXTCOLOR", (1, 0), (1, -1), INK),
            ("ALIGN", (1, 0), (1, -1), "RIGHT"),
            ("VALIGN", (0, 0), (-1, -1), "MIDDLE"),
            ("LINEBELOW", (0, 0), (-1, -2), 0.4, LINE),
            ("LINEABOVE", (0, -1), (-1, -1), 1, INK),
            *_flush(),
        ]
    )
    return Table(cells, colWidths=[WIDTH - 52 * mm, 52 * mm], style=style)


def _lines(kind: str, lines: Sequence[Line]) -> Flowable:
    shares = kind == "payout"
    head = [_("Date (UTC)"), _("What"), *([_("Charged"), _("Fee")] if shares else []), "USDC"]
    rows: list[list[Any]] = [[_text(each, 8, color=SOFT, align=0 if n < 2 else 2) for n, each in enumerate(head)]]
    for line in lines:
        figures = [line.get("gross_micro"), line.get("fee_micro")] if shares else []
        amounts = ["" if each is None else grouped_usdc(each) for each in (*figures, line["amount_micro"])]
        rows.append([_text(days_words(line), 7.5), _text(line_words(line), 8.5), *amounts])
    figures_width = 24 * mm
    widths = [24 * mm, WIDTH - 24 * mm - figures_width * (len(head) - 2), *[figures_width] * (len(head) - 2)]
    style = TableStyle(
        [
            ("FONT", (2, 1), (-1, -1), FONT, 8.5),
            ("TEXTCOLOR", (2, 1), (-1, -1), INK),
            ("ALIGN", (2, 0), (-1, -1), "RIGHT"),
            ("VALIGN", (0, 0), (-1, -1), "TOP"),
            ("LINEBELOW", (0, 0), (-1, 0), 0.8, INK),
            ("LINEBELOW", (0, 1), (-1, -1), 0.4, LINE),
            ("LEFTPADDING", (0, 0), (0, -1), 0),
            ("RIGHTPADDING", (-1, 0), (-1, -1), 0),
        ]
    )
    return LongTable(rows, colWidths=widths, repeatRows=1, style=style)


def lines_drawn(lines: Sequence[Line]) -> tuple[Sequence[Line], bool]:
    """The lines as they are drawn, and whether some were added up: per GPU, or per model where those are too many, too."""
    if len(lines) <= LINES_MAX:
        return lines, False
    per_gpu = _merged(lines, ("kind", "model", "gpu", "name", "reference"))
    if len(per_gpu) <= LINES_MAX:
        return per_gpu, True
    return _merged(lines, ("kind", "model")), True


def _merged(lines: Sequence[Line], keys: tuple[str, ...]) -> list[Line]:
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for line in lines:
        kept = {key: line[key] for key in keys if key in line}
        into = found.setdefault(tuple(kept.items()), {**kept, "from": line.get("from", ""), "amount_micro": 0})
        into["until"] = max(into.get("until", ""), line.get("until", ""))
        for name in ("gross_micro", "fee_micro", "amount_micro"):
            if name in line:
                into[name] = into.get(name, 0) + line[name]
    return list(found.values())


def _flush() -> list[tuple[Any, ...]]:
    return [("LEFTPADDING", (0, 0), (-1, -1), 0), ("RIGHTPADDING", (0, 0), (-1, -1), 0)]


def _paged(sheet: Sheet) -> type[Canvas]:
    """A canvas that knows the number of pages when it draws the foot of each."""

    class Paged(Canvas):  # type: ignore[misc]
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self._waiting: list[dict[str, Any]] = []

        def showPage(self) -> None:
            self._waiting.append(dict(self.__dict__))
            self._startPage()

        def save(self) -> None:
            for number, page in enumerate(self._waiting, 1):
                self.__dict__.update(page)
                _foot(self, sheet, number, len(self._waiting))
                super().showPage()
            super().save()

    return Paged


def _foot(canvas: Canvas, sheet: Sheet, number: int, pages: int) -> None:
    canvas.setFont(FONT, 7)
    canvas.setFillColor(SOFT)
    words = _("Amounts in USDC, six decimals. Days and times in UTC.")
    canvas.drawString(MARGIN, 14 * mm, f"{sheet.label} · {words}")
    canvas.drawString(MARGIN, 10 * mm, f"SHA-256 {sheet.sha256}")
    page = _("Page %(number)s of %(pages)s") % {"number": number, "pages": pages}
    canvas.drawRightString(A4[0] - MARGIN, 14 * mm, page)
