"""What payout tests do again and again: a provider with money and a wallet, a released payout, driving it to its end."""

from __future__ import annotations

from datetime import datetime, timedelta

from solders.keypair import Keypair

from accounts.models import Party
from billing.chain.transactions import payout_ids_in_memo
from billing.models import Payout, PayoutRun
from billing.services import (
    destination_challenge,
    destination_prove,
    earnings_mature,
    payout_advance,
    payout_run_start,
    payouts_run,
    policies_demo_install,
)
from core import clock
from tests.billing.chain.world import World
from tests.factories.billing import earned

PASSES_MAX = 12


def wallet_for(party: Party, wallet: Keypair | None = None) -> Keypair:
    """The party's proven payout wallet."""
    wallet = wallet or Keypair()
    address = str(wallet.pubkey())
    text = destination_challenge(party=party, address=address, now=clock.now()).text
    signature = str(wallet.sign_message(text.encode()))
    destination_prove(party=party, address=address, signature=signature, now=clock.now())
    return wallet


def next_monday(now: datetime) -> datetime:
    return now + timedelta(days=7 - now.weekday())


def payable(provider: Party, customer: Party, amount_micro: int) -> None:
    """``amount_micro`` after the fee, matured."""
    earned(provider, customer, amount_micro, fee_bps=0)
    earnings_mature(now=clock.now())


def released(provider: Party, customer: Party, amount_micro: int) -> tuple[Payout, Keypair]:
    """A payout of the coming Monday's run, released by the demo's policy, and the wallet it goes to."""
    policies_demo_install(now=clock.now())
    wallet = wallet_for(provider)
    payable(provider, customer, amount_micro)
    for run in run_on(next_monday(clock.now())):
        payout_run_start(run_id=run.pk, now=clock.now())
    payout = Payout.objects.get(party=provider)
    assert payout.status == Payout.Status.READY
    return payout, wallet


def run_on(day: datetime) -> list[PayoutRun]:
    return payouts_run(as_of=day.date(), now=clock.now())


def drive(payout: Payout, chain: World, *, blocks: int = 10) -> str:
    """Pass after pass, minutes apart, with blocks in between, until it is settled or nothing moves any more."""
    now, status = clock.now(), ""
    for _ in range(PASSES_MAX):
        now += timedelta(minutes=5)
        status = payout_advance(payout_id=payout.pk, now=now)
        if status in (Payout.Status.SETTLED, Payout.Status.UNKNOWN, Payout.Status.BLOCKED):
            break
        chain.control.tick(blocks)
    return status


def settle(payout: Payout, chain: World) -> None:
    assert drive(payout, chain) == Payout.Status.SETTLED
    payout.refresh_from_db()


def transfers_on_chain(payout: Payout, chain: World) -> list[str]:
    """The successful transactions on chain that carry the payout's memo."""
    history = chain.rpc.signatures_for_address(chain.hot_wallet, commitment="finalized")
    return [row.signature for row in history if row.error is None and payout.pk in payout_ids_in_memo(row.memo)]
