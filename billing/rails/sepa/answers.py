"""What the bank sends back: pain.002 (what it will do with our file) and camt.053 (what it has booked).

Several versions of both are in use; the parts that count for us are the same in all of them.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from billing.rails.base import FileRefused, LineReport, Statement, StatusReport, Verdict
from billing.rails.sepa.statements import statement_read
from billing.rails.sepa.xml import document_read, text_needed, text_of

REPORT, STATEMENT = "pain.002.", "camt.053."
ACCEPTED = {"ACTC", "ACCP", "ACSP", "ACSC", "ACWC", "ACCC", "ACWP"}
"""Checked, accepted, in settlement, even "settled": the bank's word on its own doing, never our proof of payment."""
REJECTED = {"RJCT", "CANC"}


def answer_read(data: bytes) -> StatusReport | tuple[Statement, ...]:
    """A pain.002 or a camt.053. Raises FileRefused for anything else and for whatever does not read as one of them."""
    name, root = document_read(data)
    if name.startswith(REPORT):
        return _report(_only(root, "CstmrPmtStsRpt"))
    if name.startswith(STATEMENT):
        message = _only(root, "BkToCstmrStmt")
        statements = message.findall("Stmt")
        if not statements:
            raise FileRefused.because("no statement in it", "at least one")
        header = text_needed(message, "GrpHdr/MsgId")
        return tuple(statement_read(each, header) for each in statements)
    raise FileRefused.because(f"a {name}", f"{REPORT}*, {STATEMENT}*")


def _only(root: Element, tag: str) -> Element:
    found = root.findall(tag)
    if len(found) != 1:
        raise FileRefused.because(f"{len(found)} {tag}", "exactly one")
    return found[0]


def _report(message: Element) -> StatusReport:
    group = _only(message, "OrgnlGrpInfAndSts")
    lines: list[LineReport] = []
    batches: list[tuple[Verdict | None, str]] = []
    for batch in message.findall("OrgnlPmtInfAndSts"):
        batches.append((_verdict(text_of(batch, "PmtInfSts")), _reason(batch)))
        for line in batch.findall("TxInfAndSts"):
            # A line without a word of its own has its batch's.
            verdict = _verdict(text_of(line, "TxSts")) or batches[-1][0] or Verdict.PENDING
            reason = _reason(line) or batches[-1][1]
            lines.append(LineReport(text_needed(line, "OrgnlEndToEndId"), verdict, reason))
    whole, reason = _verdict(text_of(group, "GrpSts")), _reason(group)
    if whole is None and batches and not lines and len({verdict for verdict, _ in batches}) == 1:
        whole, reason = batches[0]
    return StatusReport(
        message_id=text_needed(message, "GrpHdr/MsgId"),
        original_message_id=text_needed(group, "OrgnlMsgId"),
        whole=whole,
        whole_reason=reason,
        lines=tuple(lines),
    )


def _verdict(code: str) -> Verdict | None:
    if not code:
        return None
    if code in REJECTED:
        return Verdict.REJECTED
    return Verdict.ACCEPTED if code in ACCEPTED else Verdict.PENDING


def _reason(element: Element) -> str:
    """``AC04 Account closed``: the code and the bank's words, as far as it gives them."""
    code = text_of(element, "StsRsnInf/Rsn/Cd", 35) or text_of(element, "StsRsnInf/Rsn/Prtry", 35)
    return " ".join(part for part in (code, text_of(element, "StsRsnInf/AddtlInf", 105)) if part)
