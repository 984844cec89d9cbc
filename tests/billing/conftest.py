from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from accounts.models import Party, User
from accounts.selectors import party_of
from billing.chain.localnet.cluster import Finality
from billing.chain.localnet.runner import RunningLocalnet
from core.invariants import check_all
from tests.billing.chain.world import World

FINALITY = Finality(confirmed=2, finalized=8)


@pytest.fixture(autouse=True)
def books(request: pytest.FixtureRequest) -> Iterator[None]:
    """At the end of every test that touched the database: the deferred laws fire and the verifier finds nothing."""
    touches = request.node.get_closest_marker("django_db") is not None or "committed_db" in request.fixturenames
    if "committed_db" in request.fixturenames:
        request.getfixturevalue("committed_db")
    elif touches:
        request.getfixturevalue("db")
    yield
    if touches:
        connection.check_constraints()
        assert check_all() == []


@pytest.fixture
def provider(ada: User) -> Party:
    return party_of(ada)


@pytest.fixture
def customer(ravi: User) -> Party:
    return party_of(ravi)


@pytest.fixture
def chain(settings: Any) -> Iterator[World]:
    """The local Solana network over HTTP, and our settings pointing at it; blocks only when the test says so."""
    with (
        tempfile.TemporaryDirectory(prefix="localnet-") as folder,
        RunningLocalnet(Path(folder) / "data", finality=FINALITY) as running,
        World(running) as world,
    ):
        running.network.tick(20)
        for name, value in chain_settings(world).items():
            setattr(settings, name, value)
        yield world


def chain_settings(world: World) -> dict[str, str]:
    return {
        "SOLANA_RPC_URL": world.running.rpc,
        "SOLANA_SECOND_RPC_URL": world.running.second_rpc,
        "SOLANA_GENESIS_HASH": world.facts["genesis_hash"],
        "SOLANA_USDC_MINT": world.mint,
        "SOLANA_VAULT_OWNER": world.facts["vault_owner"],
        "SOLANA_HOT_WALLET": world.hot_wallet,
        "SOLANA_HOT_WALLET_KEY_FILE": world.facts["hot_wallet_key"],
    }
