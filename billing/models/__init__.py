from billing.models.account import SOL, USDC, Account
from billing.models.adjustment import Adjustment
from billing.models.audit import AuditEntry
from billing.models.bank import BankDecision, BankEntry, BankFile, BankLine, BankMessage, Disclosure
from billing.models.claim import DepositClaim
from billing.models.deposit import Deposit, DepositIntent, ForeignPayment, ReaderCursor
from billing.models.destination import Destination, DestinationChallenge, Purpose, Rail
from billing.models.document import Document, DocumentSeries
from billing.models.freeze import EarningFreeze
from billing.models.hold import Hold
from billing.models.ledger import BalanceCheckpoint, CreditedUsage, EarningLine, Posting, PostingFence, Transfer
from billing.models.payee import DestinationFreeze, PayoutHold
from billing.models.payout import (
    Cycle,
    Payout,
    PayoutApproval,
    PayoutAttempt,
    PayoutCycle,
    PayoutRun,
    PayoutSwitch,
    RunKind,
)
from billing.models.policy import FeeRate, PolicyRow
from billing.models.rate import EurRate
from billing.models.restore import ChainMatch
from billing.models.spending import SpendLimit, SpendNotice

__all__ = [
    "SOL",
    "USDC",
    "Account",
    "Adjustment",
    "AuditEntry",
    "BalanceCheckpoint",
    "BankDecision",
    "BankEntry",
    "BankFile",
    "BankLine",
    "BankMessage",
    "ChainMatch",
    "CreditedUsage",
    "Cycle",
    "Deposit",
    "DepositClaim",
    "DepositIntent",
    "Destination",
    "DestinationChallenge",
    "DestinationFreeze",
    "Disclosure",
    "Document",
    "DocumentSeries",
    "EarningFreeze",
    "EarningLine",
    "EurRate",
    "FeeRate",
    "ForeignPayment",
    "Hold",
    "Payout",
    "PayoutApproval",
    "PayoutAttempt",
    "PayoutCycle",
    "PayoutHold",
    "PayoutRun",
    "PayoutSwitch",
    "PolicyRow",
    "Posting",
    "PostingFence",
    "Purpose",
    "Rail",
    "ReaderCursor",
    "RunKind",
    "SpendLimit",
    "SpendNotice",
    "Transfer",
]
