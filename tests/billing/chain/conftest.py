"""A local network per test: real programs behind real HTTP, blocks only when the test says so."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from billing.chain.localnet.cluster import Finality
from billing.chain.localnet.runner import RunningLocalnet
from tests.billing.chain.world import World

FINALITY = Finality(confirmed=2, finalized=8)


@pytest.fixture
def data_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="localnet-") as folder:
        yield Path(folder) / "data"


@pytest.fixture
def world(data_folder: Path) -> Iterator[World]:
    with RunningLocalnet(data_folder, finality=FINALITY) as running, World(running) as world:
        running.network.tick(20)  # away from the genesis, where all commitments are the same block
        yield world
