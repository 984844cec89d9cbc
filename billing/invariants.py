"""The verifier: what must be true of the books at any moment. Registered in ``gpunex.wiring``."""

from __future__ import annotations

from billing.selectors import integrity
from billing.services import treasury_difference
from core.invariants import Invariant, Violation


class _Books(Invariant):
    def check(self) -> list[Violation]:
        return [self.violation(subject, sentence) for subject, sentence in integrity.CHECKS[self.name]()]


class ZeroSum(_Books):
    """Every transfer adds up to zero per asset."""

    name = "billing.zero_sum"


class LiveBalances(_Books):
    """A live balance is the sum of its postings."""

    name = "billing.live_balances"


class HeldIsOpenHolds(_Books):
    """What an account holds back is the sum of its open holds."""

    name = "billing.holds"


class PayoutsArePosted(_Books):
    """A payout's reserve and closing move exactly its amount; in flight is the sum of open payouts."""

    name = "billing.payouts"


class EarningLinesAddUp(_Books):
    """The lines of a charge add up to its provider leg; what is pending is the sum of unmatured lines."""

    name = "billing.earning_lines"


class CheckpointsAddUp(_Books):
    """A house account's last checkpoint is the sum of its postings up to there."""

    name = "billing.checkpoints"


class DepositsArePosted(_Books):
    """A deposit is posted with exactly what arrived."""

    name = "billing.deposits"


class AdjustmentsAreAgreed(_Books):
    """An adjustment by hand moves exactly what two people agreed on."""

    name = "billing.adjustments"


class DocumentsHaveNoGaps(Invariant):
    """Receipts and statements are numbered 1 to n in each series. A gap is for people to explain; it stops no payout."""

    name = "billing.documents"

    def check(self) -> list[Violation]:
        return [self.violation(subject, sentence) for subject, sentence in integrity.series_broken()]


class BankIsPosted(_Books):
    """A bank payout is paid by one booked debit, at its own rate, to the cent; the bank account is what was booked."""

    name = "billing.bank"


class TreasuryIsOnChain(Invariant):
    """Vault and hot wallet hold what the books say. Without a chain or an answer nothing is known, and nothing found."""

    name = "billing.treasury"

    def check(self) -> list[Violation]:
        return [self.violation("treasury", sentence) for sentence in treasury_difference() or []]
