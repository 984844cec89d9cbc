from __future__ import annotations

import pytest

from gpunex.agent_heartbeats import BATCH


@pytest.fixture(autouse=True)
def _heartbeats_wait_for_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """No background flush in the test's process: the test says when."""
    monkeypatch.setattr(BATCH, "_started", True)
