"""Embedded PostgreSQL where it is awkward: the wheel in a private folder, a data folder that its user cannot enter."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gpunex import embedded
from gpunex.embedded import EmbeddedError, Postgres

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives PostgreSQL another user")


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="gpunex-embedded-") as made:
        Path(made).chmod(0o711)
        yield Path(made)


@needs_root
def test_a_wheel_in_a_private_folder_is_copied_to_where_the_server_can_read_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "reachable", lambda path: path.is_relative_to(folder))
    postgres = Postgres(folder, durable=False)
    postgres.start()
    try:
        with postgres.cursor("postgres") as cursor:
            cursor.execute("SHOW server_version")
            assert cursor.fetchone()[0].startswith("18.")
        assert Path(f"/proc/{postgres.process.child.pid}/exe").resolve().is_relative_to(folder)
    finally:
        postgres.stop()


@needs_root
def test_a_private_data_folder_is_refused_in_one_sentence_and_not_opened(folder: Path) -> None:
    private = folder / "home"
    private.mkdir(mode=0o700)
    (private / "data").mkdir()
    with pytest.raises(EmbeddedError, match="choose a data folder whose parents others may enter"):
        Postgres(private / "data", durable=False).start()
    assert private.stat().st_mode & 0o777 == 0o700
    assert list((private / "data").iterdir()) == []
