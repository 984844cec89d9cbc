"""Deposits: what our vault's token account gained in a final block, told by two endpoints, credited once.

A reference names whose it is and proves nothing: what arrived is what is credited, over, under or late.
"""

from __future__ import annotations

from datetime import UTC, datetime

import structlog
from django.conf import settings
from django.db import transaction

from accounts.models import Party
from accounts.services import notification_send
from billing.chain.deposits import Credit
from billing.chain.wallets import new_reference, payment_link
from billing.models import Account, Deposit, DepositIntent, Transfer
from billing.selectors.treasury import deposits_known
from billing.services.ledger.accounts import account_open
from billing.services.ledger.transfers import transfer_post
from billing.services.network import NetworkUnavailable, network
from billing.services.reading import credits_take
from core.errors import Invalid
from core.locks import lock_name
from core.money import MICRO, format_usdc

log = structlog.get_logger(__name__)

DEPOSIT_MAX_MICRO = 1_000_000 * MICRO
"""A request above it is a slip of the keyboard. What arrives is credited whatever it is."""
PAY_LABEL = "GPUnex"
"""What a wallet shows as the payee's name."""


def deposit_intent_open(*, party: Party, amount_micro: int | None, now: datetime) -> DepositIntent:
    """A fresh reference key for one payment of ``amount_micro`` (None: the payer decides). Raises Invalid (field amount)."""
    if amount_micro is not None and not 0 < amount_micro <= DEPOSIT_MAX_MICRO:
        allowed = f"more than 0, at most {format_usdc(DEPOSIT_MAX_MICRO)} USDC"
        raise Invalid.field("amount", found=format_usdc(amount_micro), allowed=allowed)
    intent = DepositIntent(party=party, reference=new_reference(), amount_micro=amount_micro, created_at=now)
    intent.memo = f"gpunex:deposit:{intent.pk}"
    intent.save(force_insert=True)
    return intent


def deposit_link(intent: DepositIntent) -> str:
    """The Solana Pay link of an intent: vault, mint, amount if fixed, our reference and memo. Empty without a vault."""
    if not settings.SOLANA_VAULT_OWNER or not settings.SOLANA_USDC_MINT:
        return ""
    return payment_link(
        recipient=settings.SOLANA_VAULT_OWNER,
        mint=settings.SOLANA_USDC_MINT,
        reference=intent.reference,
        amount_micro=intent.amount_micro,
        label=PAY_LABEL,
        memo=intent.memo,
    )


def deposits_read(*, now: datetime) -> int:
    """Read what reached the vault since the last time and credit it; returns the number of new deposits.

    May run beside itself. A node that is silent or hides history moves nothing: the cursor stays where it was.
    """
    try:
        net = network()
    except NetworkUnavailable as error:
        log.warning("deposits_not_read", reason=error.message)
        return 0
    account = net.vault_account
    return credits_take(
        net, account=account, known=lambda since: deposits_known(account, since), record=_record, now=now
    )


def _record(credit: Credit, now: datetime) -> bool:
    """Credit one deposit, or put it to suspense; False when it was recorded before."""
    with transaction.atomic():
        # One reader at a time per account: two that see an intent appear between them would post different things.
        lock_name(f"billing:deposits:{credit.token_account}")
        if Deposit.objects.filter(signature=credit.signature, account=credit.token_account).exists():
            return False
        intent, reason = _intent_of(credit)
        party = None if intent is None else intent.party
        block_time = None if credit.block_time is None else datetime.fromtimestamp(credit.block_time, UTC)
        transfer = _post(credit, party, block_time or now, now)
        Deposit.objects.create(
            signature=credit.signature,
            account=credit.token_account,
            slot=credit.slot,
            block_time=block_time,
            amount_micro=credit.amount_micro,
            sender=credit.senders[0] if len(credit.senders) == 1 else "",
            party=party,
            intent=intent,
            state=Deposit.State.SUSPENSE if party is None else Deposit.State.CREDITED,
            reason=reason,
            transfer=transfer,
            created_at=now,
        )
        if party is not None:
            context = {"amount_micro": credit.amount_micro, "signature": credit.signature}
            notification_send(kind="deposit_credited", context=context, party=party, url="/billing/", now=now)
    log.info("deposit_recorded", signature=credit.signature, amount_micro=credit.amount_micro, reason=reason)
    return True


def _intent_of(credit: Credit) -> tuple[DepositIntent | None, str]:
    """Whose it is by its references; (None, why) where they name nobody or several customers."""
    intents = list(DepositIntent.objects.filter(reference__in=credit.references).select_related("party").order_by("pk"))
    if not intents:
        return None, "no_reference"
    if len({intent.party_id for intent in intents}) > 1:
        return None, "several_customers"
    return intents[0], ""


def _post(credit: Credit, party: Party | None, effective_at: datetime, now: datetime) -> Transfer:
    clearing = account_open(kind=Account.Kind.DEPOSITS_CLEARING)
    if party is None:
        receiver = account_open(kind=Account.Kind.SUSPENSE)
    else:
        receiver = account_open(kind=Account.Kind.CUSTOMER, owner=party)
    return transfer_post(
        source=f"deposit:{credit.signature}:{credit.token_account}",
        kind=Transfer.Kind.DEPOSIT,
        legs=[(clearing.pk, -credit.amount_micro), (receiver.pk, credit.amount_micro)],
        effective_at=effective_at,
        now=now,
    )
