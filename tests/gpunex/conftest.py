from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpunex.agent_heartbeats import BATCH
from gpunex.agent_sessions import COMPARING


@pytest.fixture(autouse=True)
def _background_waits_for_the_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No flush and no comparison behind the test's back: it says when."""
    monkeypatch.setattr(BATCH, "_started", True)
    with COMPARING:
        yield
