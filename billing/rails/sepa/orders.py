"""pain.001.001.09: our payment file, written by sepaxml, checked by us before and by the published schema after.

sepaxml takes a bad IBAN and the same EndToEndId twice, and draws its message id, its times and its batch ids anew on every
call. Here they come from the order, so that the same order gives the same bytes.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC
from functools import lru_cache
from pathlib import Path
from typing import Any

import sepaxml
from django.utils.module_loading import import_string
from sepaxml import SepaTransfer

from billing.euros import EUR
from billing.rails.base import FileRefused, Payment, PaymentOrder
from billing.rails.sepa.accounts import NAME_LETTERS, holder_text, iban_check, sepa_text
from billing.rails.sepa.calendar import target_day
from core.errors import Invalid

SCHEMA = "pain.001.001.09"
TEXT_LETTERS = 140
CENTS_MAX = 99_999_999_999
"""999,999,999.99 EUR, the scheme's largest transfer."""
_IDENTIFIER = re.compile(r"[A-Za-z0-9-]{1,35}")


def order_write(order: PaymentOrder) -> bytes:
    """The file's bytes. Raises FileRefused: no line, a bad IBAN or name or amount, an id used twice, a day of no business."""
    _check(order)
    bank = {"BIC": order.payer.bank} if order.payer.bank else {}
    config = {"name": sepa_text(order.payer.holder, NAME_LETTERS), "IBAN": order.payer.account, "currency": EUR}
    document = _Document({**config, **bank, "batch": True}, order)
    for payment in order.payments:
        document.add_payment(_payment(payment, order))
    data = bytes(document.export(validate=False))
    for error in _schema().iter_errors(data.decode()):
        raise FileRefused.because(str(error)[:200], f"what {SCHEMA} allows")
    return data


@lru_cache(maxsize=1)
def _schema() -> Any:
    """The published schema, read once per process: sepaxml would read it anew for every file. Its library is imported by
    whoever writes a file; to import it takes a third of a second, which no other process should pay at its start."""
    return import_string("xmlschema.XMLSchema")(Path(sepaxml.__file__).with_name("schemas") / f"{SCHEMA}.xsd")


class _Document(SepaTransfer):
    """sepaxml's writer with the order's own ids and times; one booking per payment, so that each can be told on a statement."""

    def __init__(self, config: dict[str, Any], order: PaymentOrder) -> None:
        self._order = order
        super().__init__(config, schema=SCHEMA, clean=False)

    def _create_header(self) -> None:
        self.msg_id = self._order.message_id
        super()._create_header()
        created = self._order.created_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._xml.find("CstmrCdtTrfInitn/GrpHdr/CreDtTm").text = created

    def _finalize_batch(self) -> None:
        super()._finalize_batch()
        for number, batch in enumerate(self._xml.iter("PmtInf"), 1):
            batch.find("PmtInfId").text = f"{self._order.message_id[:31]}-{number}"
            batch.find("BtchBookg").text = "false"


def _payment(payment: Payment, order: PaymentOrder) -> dict[str, Any]:
    return {
        "name": holder_text(payment.holder),
        "IBAN": payment.account,
        "amount": payment.amount_cents,
        "execution_date": order.execution_date,
        "description": sepa_text(payment.text, TEXT_LETTERS),
        "endtoend_id": payment.end_to_end_id,
    }


def _check(order: PaymentOrder) -> None:
    if not order.payments:
        raise FileRefused.because("no payment", "at least one")
    if target_day(order.execution_date) != order.execution_date:
        raise FileRefused.because(f"execution on {order.execution_date}", "a TARGET business day")
    for name in (order.message_id, *(payment.end_to_end_id for payment in order.payments)):
        if not _IDENTIFIER.fullmatch(name):
            raise FileRefused.because(f"the id {name!r}", "1 to 35 letters, digits and hyphens")
    repeated = [name for name, count in Counter(p.end_to_end_id for p in order.payments).items() if count > 1]
    if repeated:
        raise FileRefused.because(f"the end-to-end id {repeated[0]} twice", "each once")
    _account(order.payer.account, "our account")
    for payment in order.payments:
        _account(payment.account, f"payment {payment.end_to_end_id}")
        if not 0 < payment.amount_cents <= CENTS_MAX:
            raise FileRefused.because(f"{payment.amount_cents} cents", f"1 to {CENTS_MAX}")
        if not sepa_text(payment.text, TEXT_LETTERS):
            raise FileRefused.because("an empty remittance text", "1 to 140 letters")


def _account(account: str, whose: str) -> None:
    try:
        kept = iban_check(account, field="file")
    except Invalid as error:
        raise FileRefused.because(f"{whose}: {error.message}", "a valid IBAN") from error
    if kept != account:
        raise FileRefused.because(f"{whose}: an IBAN with blanks or small letters", "as it was checked")
