"""A fake platform and a real agent for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.host import AgentHost
from tests.agent.platform import FakePlatform


@pytest.fixture
def platform() -> Iterator[FakePlatform]:
    fake = FakePlatform()
    yield fake
    fake.close()
    assert fake.violations == []


@pytest.fixture
def host(platform: FakePlatform, tmp_path: Path) -> Iterator[AgentHost]:
    agent = AgentHost(platform.url, tmp_path)
    yield agent
    agent.clean_up()
    print(agent.journal() if (tmp_path / "agent.log").exists() else "the agent never started")
