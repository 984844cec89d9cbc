"""A local network per test: real programs behind real HTTP, blocks only when the test says so."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from billing.chain.localnet.cluster import Finality
from billing.chain.localnet.runner import RunningLocalnet
from tests.billing.chain.world import World

FINALITY = Finality(confirmed=2, finalized=8)
MEMORY = Path("/dev/shm")  # where syncing a file costs nothing


@contextmanager
def new_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="localnet-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
        yield Path(folder) / "data"


@contextmanager
def new_world(folder: Path) -> Iterator[World]:
    with RunningLocalnet(folder, finality=FINALITY) as running, World(running) as world:
        running.network.tick(20)  # away from the genesis, where all commitments are the same block
        yield world


@pytest.fixture
def data_folder() -> Iterator[Path]:
    with new_folder() as folder:
        yield folder


@pytest.fixture
def world(data_folder: Path) -> Iterator[World]:
    with new_world(data_folder) as world:
        yield world


@pytest.fixture(scope="module")
def quiet_world() -> Iterator[World]:
    """One for all tests of a module that leave the chain as it is."""
    with new_folder() as folder, new_world(folder) as world:
        yield world
