"""SEPA credit transfers in euros: pain.001 out, pain.002 and camt.053 in."""

from __future__ import annotations

from datetime import date

from billing.euros import EUR
from billing.rails.base import PaymentOrder, Statement, StatusReport
from billing.rails.sepa.accounts import holder_text, iban_check
from billing.rails.sepa.answers import answer_read
from billing.rails.sepa.calendar import target_day
from billing.rails.sepa.orders import order_write

__all__ = ["SepaRail"]


class SepaRail:
    """See ``billing.rails.base.BankRail``."""

    name = "sepa"
    currency = EUR

    def account_check(self, text: str, *, field: str) -> str:
        return iban_check(text, field=field)

    def holder_check(self, name: str, *, field: str) -> str:
        return holder_text(name, field=field)

    def business_day(self, day: date) -> date:
        return target_day(day)

    def file_write(self, order: PaymentOrder) -> bytes:
        return order_write(order)

    def file_read(self, data: bytes) -> StatusReport | tuple[Statement, ...]:
        return answer_read(data)
