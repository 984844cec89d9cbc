"""What a torture plays on: a chain of its own, and a database in which nobody else has anything."""

from __future__ import annotations

import ctypes
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

from django.conf import settings
from django.db import connection
from django.test.utils import override_settings
from solders.keypair import Keypair

from accounts.models import Party
from billing.chain.localnet.client import LocalnetControl
from billing.chain.rpc import RpcClient
from billing.models import Account, Destination, PayoutRun, Transfer
from billing.services import account_open, policies_demo_install, transfer_post, treasury_read
from core import jobs
from core.ids import uuid7

CONFIRMED_AFTER, FINALIZED_AFTER = 2, 8
PAYEES = 4
_PR_SET_PDEATHSIG = 1


class TortureRefused(Exception):
    """There is something in the way, or something that must not be hurt; the text says what."""


class Stage:
    """The chain and its levers, the payees, and the simulated time."""

    def __init__(self, facts: dict[str, Any], now: datetime) -> None:
        self.facts, self.now = facts, now
        self.control = LocalnetControl(facts["rpc"])
        self.nodes = (RpcClient(facts["rpc"]), RpcClient(facts["second_rpc"]))
        self.payees = [Party.objects.create(handle=f"tortured-{uuid7().hex[-12:]}") for _ in range(PAYEES)]

    def close(self) -> None:
        for client in (self.control, *self.nodes):
            client.close()

    def wallet_new(self, party: Party, rng: Random) -> None:
        """The payee gets another wallet: its token account has to be made, and its rent be paid."""
        Destination.objects.filter(party=party, state=Destination.State.ACTIVE).update(state=Destination.State.REPLACED)
        address = str(Keypair.from_seed(rng.randbytes(32)).pubkey())
        Destination.objects.create(party=party, address=address, usable_from=self.now, created_at=self.now)

    def earn(self, party: Party, amount_micro: int, *, at: datetime, source: str) -> None:
        """Matured earnings, out of the operator's capital."""
        capital = account_open(kind=Account.Kind.CAPITAL)
        payable = account_open(kind=Account.Kind.PROVIDER_PAYABLE, owner=party)
        transfer_post(
            source=f"torture:{source}",
            kind=Transfer.Kind.EARNINGS_MATURED,
            legs=[(capital.pk, -amount_micro), (payable.pk, amount_micro)],
            effective_at=at,
            now=self.now,
        )


@contextmanager
def stage(folder: Path, *, now: datetime) -> Iterator[Stage]:
    """A fresh chain in ``folder`` (empty) and the database that Django is connected to.

    Raises:
        TortureRefused: not in demo mode, or the database has been used for anything.
    """
    if not settings.DEMO:
        raise TortureRefused("DEMO: found 0, allowed 1: nothing is tortured where real money may be")
    used = [model.__name__ for model in (Party, Transfer, PayoutRun) if model.objects.exists()]
    if used:
        name = connection.settings_dict["NAME"]
        raise TortureRefused(f"database {name}: it holds {', '.join(used)}; allowed: a migrated one that is empty")
    with _localnet(folder) as facts, override_settings(**_settings(facts), DATA_DIR=folder):
        send = jobs._send
        # No broker, from the beginning to the end: whatever is announced gets lost, and sweeps have to find it.
        jobs._send = lambda name, arguments: None
        found = Stage(facts, now)
        try:
            found.control.tick(2 * FINALIZED_AFTER)
            policies_demo_install(now=now)
            treasury_read(now=now)
            yield found
        finally:
            jobs._send = send
            found.close()


def _settings(facts: dict[str, Any]) -> dict[str, Any]:
    return {
        "SOLANA_RPC_URL": facts["rpc"],
        "SOLANA_SECOND_RPC_URL": facts["second_rpc"],
        "SOLANA_GENESIS_HASH": facts["genesis_hash"],
        "SOLANA_USDC_MINT": facts["mint"],
        "SOLANA_VAULT_OWNER": facts["vault_owner"],
        "SOLANA_HOT_WALLET": facts["hot_wallet"],
        "SOLANA_HOT_WALLET_KEY_FILE": facts["hot_wallet_key"],
        "PAYOUT_SCREENER": "billing.services.payouts.screening.LocalListScreener",
    }


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@contextmanager
def _localnet(folder: Path) -> Iterator[dict[str, Any]]:
    """In a process of its own: one with threads must not be forked from."""
    command = [sys.executable, "-m", "billing.chain.localnet", "--data", str(folder / "localnet"), "--block-ms", "0"]
    command += ["--confirmed-after", str(CONFIRMED_AFTER), "--finalized-after", str(FINALIZED_AFTER)]
    process = subprocess.Popen(
        command, cwd=settings.BASE_DIR, stdout=subprocess.PIPE, text=True, preexec_fn=_die_with_parent
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise TortureRefused("the local network did not start; see above")
        yield json.loads(line)
    finally:
        process.terminate()
        process.wait()
