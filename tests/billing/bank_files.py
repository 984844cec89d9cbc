"""A bank that misbehaves: statements and answers with whatever a test wants to be wrong in them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from xml.sax.saxutils import escape

from tests.billing.bank import OUR_IBAN

DAY = date(2026, 12, 7)


@dataclass(frozen=True)
class Entry:
    """A booked movement; cents < 0 is a debit."""

    cents: int
    end_to_end_id: str = ""
    reference: str = ""
    currency: str = "EUR"
    status: str = "BOOK"
    name: str = "Somebody"
    reason: str = ""
    day: date = DAY
    parts: tuple[tuple[str, int], ...] = ()
    """Of a batch: (end-to-end id, cents) of each movement."""

    def xml(self) -> str:
        side = "DBIT" if self.cents < 0 else "CRDT"
        details = "".join(self._details(name, cents) for name, cents in self.parts or ((self.end_to_end_id, None),))
        reference = f"<AcctSvcrRef>{self.reference}</AcctSvcrRef>" if self.reference else ""
        return (
            f'<Ntry><Amt Ccy="{self.currency}">{_decimal(self.cents)}</Amt><CdtDbtInd>{side}</CdtDbtInd>'
            f"<Sts><Cd>{self.status}</Cd></Sts><BookgDt><Dt>{self.day}</Dt></BookgDt>{reference}"
            f"<NtryDtls>{details}</NtryDtls></Ntry>"
        )

    def _details(self, name: str, cents: int | None) -> str:
        amount = "" if cents is None else f'<Amt Ccy="{self.currency}">{_decimal(cents)}</Amt>'
        refs = f"<Refs><EndToEndId>{escape(name)}</EndToEndId></Refs>" if name else ""
        party = "Cdtr" if self.cents < 0 else "Dbtr"
        reason = f"<RtrInf><Rsn><Cd>{self.reason}</Cd></Rsn></RtrInf>" if self.reason else ""
        person = f"<RltdPties><{party}><Pty><Nm>{escape(self.name)}</Nm></Pty></{party}></RltdPties>"
        return f"<TxDtls>{refs}{amount}{person}{reason}</TxDtls>"


def _decimal(cents: int) -> str:
    return f"{abs(cents) // 100}.{abs(cents) % 100:02d}"


def _balance(kind: str, cents: int, day: date, currency: str = "EUR") -> str:
    side = "DBIT" if cents < 0 else "CRDT"
    return (
        f"<Bal><Tp><CdOrPrtry><Cd>{kind}</Cd></CdOrPrtry></Tp>"
        f'<Amt Ccy="{currency}">{_decimal(cents)}</Amt><CdtDbtInd>{side}</CdtDbtInd><Dt><Dt>{day}</Dt></Dt></Bal>'
    )


def statement(
    *entries: Entry, account: str = OUR_IBAN, name: str = "S1", day: date = DAY, missing: int = 0, currency: str = "EUR"
) -> bytes:
    """A camt.053 that adds up, but for ``missing`` cents."""
    booked = sum(entry.cents for entry in entries if entry.status == "BOOK" and entry.currency == currency)
    balances = _balance("OPBD", 1_000_000, day, currency) + _balance(
        "CLBD", 1_000_000 + booked + missing, day, currency
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?><Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08">'
        f"<BkToCstmrStmt><GrpHdr><MsgId>{name}</MsgId></GrpHdr><Stmt><Id>{name}</Id>"
        f"<Acct><Id><IBAN>{account}</IBAN></Id></Acct>{balances}"
        f"{''.join(entry.xml() for entry in entries)}</Stmt></BkToCstmrStmt></Document>"
    ).encode()


def report(file_id: str, *lines: tuple[str, str, str], group: str = "", name: str = "R1", reason: str = "") -> bytes:
    """A pain.002: (end-to-end id, status, reason) per line, and a word on the whole file."""
    body = "".join(
        f"<TxInfAndSts><OrgnlEndToEndId>{each}</OrgnlEndToEndId><TxSts>{status}</TxSts>"
        f"<StsRsnInf><Rsn><Cd>{why}</Cd></Rsn></StsRsnInf></TxInfAndSts>"
        for each, status, why in lines
    )
    whole = f"<GrpSts>{group}</GrpSts><StsRsnInf><Rsn><Cd>{reason}</Cd></Rsn></StsRsnInf>" if group else ""
    batch = f"<OrgnlPmtInfAndSts><OrgnlPmtInfId>P</OrgnlPmtInfId>{body}</OrgnlPmtInfAndSts>" if body else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?><Document xmlns="urn:iso:std:iso:20022:tech:xsd:pain.002.001.10">'
        f"<CstmrPmtStsRpt><GrpHdr><MsgId>{name}</MsgId></GrpHdr><OrgnlGrpInfAndSts><OrgnlMsgId>{file_id}</OrgnlMsgId>"
        f"{whole}</OrgnlGrpInfAndSts>{batch}</CstmrPmtStsRpt></Document>"
    ).encode()
