from billing.services.adjustments import adjustment_confirm, adjustment_propose, adjustment_refuse
from billing.services.audit import audit_record
from billing.services.bank.account import BankUnavailable, schemes_offered
from billing.services.bank.decisions import bank_decision_confirm, bank_decision_propose
from billing.services.bank.disclosures import bank_message_show, destination_show
from billing.services.bank.files import bank_file_approve, bank_file_fetch, bank_file_make
from billing.services.bank.messages import bank_message_import
from billing.services.bank.rates import eur_rate_confirm, eur_rate_enter
from billing.services.claims import (
    claim_confirm,
    claim_decline,
    claim_evidence_open,
    claim_propose,
    claim_wallet_open,
    claim_wallet_prove,
)
from billing.services.deposits import deposit_intent_open, deposit_link, deposits_read
from billing.services.destinations import destination_bank_set, destination_challenge, destination_prove
from billing.services.documents import (
    monthly_statement_issue,
    months_due,
    months_issue,
    payout_statement_issue,
    receipt_issue,
    receipts_issue,
)
from billing.services.earnings import earnings_mature
from billing.services.foreign import foreign_payments_read
from billing.services.freezes import earnings_freeze, earnings_thaw
from billing.services.holds import hold_extend, hold_place, hold_release
from billing.services.ledger.accounts import account_open
from billing.services.ledger.checkpoints import checkpoints_take
from billing.services.ledger.credits import service_credit_post
from billing.services.ledger.reversals import usage_reverse
from billing.services.ledger.transfers import SourceTaken, transfer_post, transfers_post_many
from billing.services.ledger.usage import EarningInput, UsageAnswer, UsageInput, usage_post, usage_post_many
from billing.services.network import NetworkUnavailable
from billing.services.payee_freezes import destination_freeze, destination_freeze_clear, freeze_link_read
from billing.services.payouts.advance import payout_advance
from billing.services.payouts.alerts import runs_alert
from billing.services.payouts.party_holds import payout_hold_place, payout_hold_release
from billing.services.payouts.plan import payout_cycle_set, payouts_run
from billing.services.payouts.release import payout_approve, payout_cancel, payout_run_start
from billing.services.payouts.resolve import payout_resolve
from billing.services.payouts.restore import payment_adopt, payouts_match
from billing.services.payouts.runs import payouts_freeze
from billing.services.payouts.sweep import payouts_sweep
from billing.services.policies import fee_rate_set, policies_demo_install, policy_set
from billing.services.spending import (
    REAUTHENTICATION_REQUIRED,
    SpendLimitReached,
    spend_check,
    spend_limits_set,
    spend_notice_take,
)
from billing.services.treasury import books_check, treasury_difference, treasury_read
from billing.services.withdrawals import withdrawal_cancel, withdrawal_request

__all__ = [
    "REAUTHENTICATION_REQUIRED",
    "BankUnavailable",
    "EarningInput",
    "NetworkUnavailable",
    "SourceTaken",
    "SpendLimitReached",
    "UsageAnswer",
    "UsageInput",
    "account_open",
    "adjustment_confirm",
    "adjustment_propose",
    "adjustment_refuse",
    "audit_record",
    "bank_decision_confirm",
    "bank_decision_propose",
    "bank_file_approve",
    "bank_file_fetch",
    "bank_file_make",
    "bank_message_import",
    "bank_message_show",
    "books_check",
    "checkpoints_take",
    "claim_confirm",
    "claim_decline",
    "claim_evidence_open",
    "claim_propose",
    "claim_wallet_open",
    "claim_wallet_prove",
    "deposit_intent_open",
    "deposit_link",
    "deposits_read",
    "destination_bank_set",
    "destination_challenge",
    "destination_freeze",
    "destination_freeze_clear",
    "destination_prove",
    "destination_show",
    "earnings_freeze",
    "earnings_mature",
    "earnings_thaw",
    "eur_rate_confirm",
    "eur_rate_enter",
    "fee_rate_set",
    "foreign_payments_read",
    "freeze_link_read",
    "hold_extend",
    "hold_place",
    "hold_release",
    "monthly_statement_issue",
    "months_due",
    "months_issue",
    "payment_adopt",
    "payout_advance",
    "payout_approve",
    "payout_cancel",
    "payout_cycle_set",
    "payout_hold_place",
    "payout_hold_release",
    "payout_resolve",
    "payout_run_start",
    "payout_statement_issue",
    "payouts_freeze",
    "payouts_match",
    "payouts_run",
    "payouts_sweep",
    "policies_demo_install",
    "policy_set",
    "receipt_issue",
    "receipts_issue",
    "runs_alert",
    "schemes_offered",
    "service_credit_post",
    "spend_check",
    "spend_limits_set",
    "spend_notice_take",
    "transfer_post",
    "transfers_post_many",
    "treasury_difference",
    "treasury_read",
    "usage_post",
    "usage_post_many",
    "usage_reverse",
    "withdrawal_cancel",
    "withdrawal_request",
]
