"""The worker's signer remembers what it signed, also over a restart, and refuses what contradicts it."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from accounts.models import Party
from billing.chain.errors import PayoutShapeRefused
from billing.chain.transactions import build_payout_message
from billing.models import Payout, PayoutAttempt
from billing.services import payout_advance, policy_set
from billing.services.network import network
from billing.services.payouts import signing
from billing.services.payouts.signing import payout_signer
from core import clock
from tests.billing.chain.world import USDC, World, new_wallet
from tests.billing.payouts import released, settle

pytestmark = pytest.mark.django_db


def journal(chain: World) -> Path:
    return Path(chain.facts["hot_wallet_key"] + ".journal")


def restart() -> None:
    """What a new process has not: this one's memory."""
    signing._journal.cache_clear()


def test_each_signature_is_in_the_journal_before_it_leaves(chain: World, provider: Party, customer: Party) -> None:
    payout, _ = released(provider, customer, 5 * USDC)
    settle(payout, chain)
    (line,) = [json.loads(text) for text in journal(chain).read_text().splitlines()]
    assert (line["payout"], line["amount_micro"]) == (str(payout.pk), 5 * USDC)
    assert stat.S_IMODE(journal(chain).stat().st_mode) == 0o600


@pytest.mark.parametrize("changed", ["amount_micro", "destination_owner"])
def test_a_second_different_message_is_refused_by_the_next_process_too(
    chain: World, provider: Party, customer: Party, changed: str
) -> None:
    payout, _ = released(provider, customer, 5 * USDC)
    payout_advance(payout_id=payout.pk, now=clock.now())
    restart()
    net = network()
    said: dict[str, Any] = {"destination_owner": payout.address, "amount_micro": payout.amount_micro}
    said |= {"amount_micro": 6 * USDC} if changed == "amount_micro" else {"destination_owner": new_wallet()}
    message = build_payout_message(
        payout_id=payout.pk,
        hot_wallet=net.hot_wallet,
        mint=net.mint,
        blockhash=net.primary.latest_blockhash(commitment="finalized").blockhash,
        **said,
    )
    with pytest.raises(PayoutShapeRefused, match="payout_changed"):
        payout_signer(net, clock.now()).sign(message)


def test_the_same_payout_anew_within_its_blockhashs_life_waits(chain: World, provider: Party, customer: Party) -> None:
    """As a bug would ask for it: the attempt is called expired although it can still land."""
    payout, _ = released(provider, customer, 5 * USDC)
    payout_advance(payout_id=payout.pk, now=clock.now())
    PayoutAttempt.objects.update(state="expired")
    Payout.objects.update(status="ready")
    chain.control.tick()
    restart()
    assert payout_advance(payout_id=payout.pk, now=clock.now()) == Payout.Status.READY
    assert PayoutAttempt.objects.count() == 1


@pytest.mark.parametrize("name", ["signing_day_limit_micro", "signing_destination_day_limit_micro"])
def test_a_days_cap_stops_the_signer(chain: World, provider: Party, customer: Party, name: str) -> None:
    payout, _ = released(provider, customer, 5 * USDC)
    policy_set(name=name, value=4 * USDC, valid_from=clock.now())
    assert payout_advance(payout_id=payout.pk, now=clock.now()) == Payout.Status.BLOCKED
    payout.refresh_from_db()
    assert "day_cap" in payout.note
    assert not PayoutAttempt.objects.exists()


@pytest.mark.parametrize("damage", ["torn", "open"])
def test_without_its_memory_it_signs_nothing(chain: World, provider: Party, customer: Party, damage: str) -> None:
    payout, _ = released(provider, customer, 5 * USDC)
    journal(chain).write_text('{"at": 1' if damage == "torn" else "")
    journal(chain).chmod(0o600 if damage == "torn" else 0o644)
    assert payout_advance(payout_id=payout.pk, now=clock.now()) in {Payout.Status.READY, Payout.Status.BLOCKED}
    assert not PayoutAttempt.objects.exists()


def test_the_journal_can_lie_where_the_setting_says(
    chain: World, provider: Party, customer: Party, settings: Any, tmp_path: Path
) -> None:
    payout, _ = released(provider, customer, 5 * USDC)
    settings.SOLANA_SIGNING_JOURNAL = str(tmp_path / "missing" / "signed")
    assert payout_advance(payout_id=payout.pk, now=clock.now()) == Payout.Status.BLOCKED
    assert not PayoutAttempt.objects.exists()
    settings.SOLANA_SIGNING_JOURNAL = str(tmp_path / "signed")
    settle(payout, chain)
    assert (tmp_path / "signed").exists() and not journal(chain).exists()
