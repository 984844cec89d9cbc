"""Payees with money, and a pay day from planning to settling; run inside ``manage.py shell`` beside a localnet."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from solders.keypair import Keypair

from accounts.models import Party, PartyMember, User
from bench.report import chunks
from billing.chain.localnet.client import LocalnetControl
from billing.chain.rpc import RpcClient
from billing.chain.signer import KeyFileSigner
from billing.chain.transactions import assemble_transaction, build_payout_message
from billing.models import Account, Destination, Payout, Transfer
from billing.selectors.integrity import CHECKS
from billing.services import account_open, payout_run_start, payouts_run, payouts_sweep, policies_demo_install
from billing.services.ledger.transfers import BATCH, TransferInput, transfers_post_many
from billing.services.network import network
from billing.services.payouts.signing import payout_signer
from core import clock
from core.ids import uuid7

OWED_MICRO = 30_000_000
WEEK = timedelta(days=7)
ROWS = 2_000
SENDS_PER_BLOCKHASH = 100
"""A blockhash lives for 150 blocks of 400 ms: who only signs and sends asks for one now and then."""
STEP = timedelta(seconds=5)
"""Between two sweeps, by the product's clock: as the schedule has it."""
FINAL_SECONDS = 600.0


def make(count: int) -> None:
    """``count`` more people with a wallet, a payable balance, and a wallet of ours that can pay them all."""
    now = clock.now()
    policies_demo_install(now=now)
    known = Party.objects.filter(handle__startswith="payee-").count()
    clearing = account_open(kind=Account.Kind.DEPOSITS_CLEARING)
    for numbers in chunks(range(known, known + count), ROWS):
        users = [User(email=f"payee-{n}@bench.example", password="!") for n in numbers]
        parties = [Party(handle=f"payee-{n}", legal_name="") for n in numbers]
        User.objects.bulk_create(users)
        Party.objects.bulk_create(parties)
        PartyMember.objects.bulk_create(
            PartyMember(party=party, user=user) for party, user in zip(parties, users, strict=True)
        )
        Account.objects.bulk_create(
            Account(owner=party, kind=Account.Kind.PROVIDER_PAYABLE, live=True) for party in parties
        )
        Destination.objects.bulk_create(
            Destination(party=party, address=str(Keypair().pubkey()), usable_from=now - WEEK) for party in parties
        )
    _owe(clearing, now)
    each_lamports = 3_000_000
    with LocalnetControl(settings.SOLANA_RPC_URL) as control:
        control.mint(settings.SOLANA_HOT_WALLET, 4 * OWED_MICRO * (known + count))
        control.airdrop(settings.SOLANA_HOT_WALLET, 2 * each_lamports * (known + count))


def _owe(clearing: Account, now: datetime) -> None:
    payable = Account.objects.filter(kind=Account.Kind.PROVIDER_PAYABLE, balance=0).values_list("pk", flat=True)
    for accounts in chunks(list(payable), BATCH):
        items = [
            TransferInput(
                f"matured:bench:{uuid7()}",
                Transfer.Kind.EARNINGS_MATURED,
                [(clearing.pk, -OWED_MICRO), (account, OWED_MICRO)],
                now - WEEK,
            )
            for account in accounts
        ]
        transfers_post_many(items=items, now=now)


def pay(weeks: int) -> None:
    """Plan, release, sign, send and settle whoever is owed, ``weeks`` weeks from now; prints seconds and memory as JSON."""
    now = clock.now() + weeks * WEEK
    spent = _Spent()
    baseline = [_alone(now)]
    plan_seconds = _seconds(lambda: payouts_run(as_of=now.date(), now=now))
    runs = [payout.run_id for payout in Payout.objects.filter(status="awaiting_release").distinct("run")]
    with spent.counted():
        release_seconds = _seconds(lambda: [payout_run_start(run_id=run, now=now) for run in runs])
        release_chain = spent.taken()
        pass_seconds, passes = _advance(now)
        pass_chain = spent.taken()
    baseline.append(_alone(now))
    count = Payout.objects.filter(run__in=runs).count()
    found = {
        "payouts": count,
        "settled": Payout.objects.filter(run__in=runs, status="settled").count(),
        "baseline": [each * count for each in baseline],
        "plan_seconds": plan_seconds,
        "release_seconds": release_seconds - release_chain,
        "books_seconds": pass_seconds - pass_chain,
        "chain_seconds": pass_chain + release_chain,
        "passes": passes,
        "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "sound": [finding for check in CHECKS.values() for finding in check()],
    }
    sys.stdout.write(json.dumps(found))


def _advance(now: datetime) -> tuple[float, int]:
    """Sweeps, one after the other as the schedule sends them, until all is settled. Waiting for blocks is nobody's time."""
    worked, passes, deadline = 0.0, 0, time.monotonic() + FINAL_SECONDS
    while Payout.objects.filter(status__in=Payout.OPEN).exists():
        now += STEP
        began = time.perf_counter()
        made = payouts_sweep(now=now)
        worked, passes = worked + time.perf_counter() - began, passes + made
        if made:
            deadline = time.monotonic() + FINAL_SECONDS
        elif time.monotonic() > deadline:
            raise AssertionError("payouts are open and nothing moves")
    return worked, passes


def _alone(now: datetime) -> float:
    """Seconds to sign and send one payment to a wallet of a payee, and nothing else."""
    net, signer = network(), payout_signer(network(), now)
    wallets = list(Destination.objects.order_by("pk").values_list("address", flat=True)[:SENDS_PER_BLOCKHASH])
    began = time.perf_counter()
    blockhash = net.primary.latest_blockhash(commitment="finalized").blockhash
    for wallet in wallets:
        message = build_payout_message(
            payout_id=uuid7(),
            hot_wallet=net.hot_wallet,
            mint=net.mint,
            destination_owner=wallet,
            amount_micro=1,
            blockhash=blockhash,
        )
        signed = assemble_transaction(message, [signer.sign(message)])
        net.primary.send(signed.raw, skip_preflight=True, preflight_commitment="finalized")
    return (time.perf_counter() - began) / len(wallets)


class _Spent:
    """Seconds spent in calls of nodes and in signing: what is not ours."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def taken(self) -> float:
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    @contextmanager
    def counted(self) -> Iterator[None]:
        call, sign = RpcClient._call, KeyFileSigner.sign
        RpcClient._call = self._timed(call)  # type: ignore[method-assign]
        KeyFileSigner.sign = self._timed(sign)  # type: ignore[method-assign]
        try:
            yield
        finally:
            RpcClient._call, KeyFileSigner.sign = call, sign  # type: ignore[method-assign]

    def _timed(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            began = time.perf_counter()
            try:
                return work(*arguments, **options)
            finally:
                self._seconds += time.perf_counter() - began

        return timed


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
